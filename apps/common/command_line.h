// Command lines by CLI11, with this project's errors.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace evenstep {

/// Thrown where the command line asked for help or the version: what to print.
struct TextAsked {
  std::string text;
};

/// Fills the app's options. Throws UsageError, on one line, or TextAsked.
void parse_command_line(CLI::App& app, int argc, char** argv);

/// All options but `except`, as given: name and value.
std::vector<std::pair<std::string, std::string>> given_options(
    const CLI::App& app, const std::vector<std::string_view>& except);

}  // namespace evenstep
