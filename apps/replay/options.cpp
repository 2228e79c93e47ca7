#include "replay/options.h"

#include <CLI/CLI.hpp>

#include "common/command_line.h"
#include "evenstep/error.h"
#include "lb/sizer.h"

namespace evenstep::replay {
namespace {

constexpr const char* waits[] = {"auto", "spin", "yield", "sleep"};

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("Replays a trace on the ranks of an MPI job, which sleep instead of computing.",
               "evenstep-replay");
  app.option_defaults()->always_capture_default();
  add_course_options(app, options.course);
  app.add_option("--balance", options.balance, "how shares are sized")
      ->check(one_of(lb::sizer_names()));
  app.add_option("--wait", options.wait, "how a rank waits for the others")
      ->check(one_of(std::span(waits)));
  app.add_option("--time-scale", options.time_scale,
                 "all of the trace's times are multiplied by it")
      ->check(real(1e-6, 1000));
  parse_command_line(app, argc, argv);
  if ((app.count("--trace") > 0) == (app.count("--generate") > 0))
    throw UsageError("give one of --trace and --generate");
  options.given = given_options(app, {});
  return options;
}

}  // namespace evenstep::replay
