#include "common/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "evenstep/error.h"

namespace evenstep {
namespace {

std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("{} ({} --help lists all options)", text, app.get_name());
}

}  // namespace

void parse_command_line(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", std::string("evenstep ") + EVENSTEP_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw TextAsked{app.help()};
  } catch (const CLI::CallForVersion&) {
    throw TextAsked{app.version() + "\n"};
  } catch (const CLI::ParseError& error) {
    throw UsageError(refusal(app, error));
  }
}

std::vector<std::pair<std::string, std::string>> given_options(
    const CLI::App& app, const std::vector<std::string_view>& except) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (name == "--help" || name == "--version") continue;
    if (std::ranges::find(except, name) != except.end()) continue;
    const std::string value = fmt::format("{}", fmt::join(option->results(), " "));
    given.emplace_back(name, value.empty() ? "its default" : value);
  }
  return given;
}

}  // namespace evenstep
