// The command line of evenstep-replay.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/course_options.h"

namespace evenstep::replay {

struct Options {
  CourseOptions course;
  std::string balance = "even";
  std::string wait = "auto";
  double time_scale = 1;

  /// The options as given, for the check that all ranks have the same.
  std::vector<std::pair<std::string, std::string>> given;
};

/// Throws UsageError with the option, the value and what would do, or TextAsked.
Options parse_options(int argc, char** argv);

}  // namespace evenstep::replay
