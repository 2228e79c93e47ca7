// The command line of evenstep-sim (design, section 6).
#pragma once

#include <string>
#include <vector>

#include "common/command_line.h"
#include "common/course_options.h"

namespace evenstep::sim {

struct Options {
  CourseOptions course;
  std::string from_log;
  std::string solve;
  std::string write_trace;
  std::vector<std::string> balances;  ///< in the order asked for, none twice
};

/// Throws UsageError with the option, the value and what would do, or TextAsked.
Options parse_options(int argc, char** argv);

}  // namespace evenstep::sim
