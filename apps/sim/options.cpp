#include "sim/options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "evenstep/error.h"
#include "lb/sizer.h"

namespace evenstep::sim {
namespace {

constexpr const char* sources[] = {"--trace", "--from-log", "--generate", "--solve"};

void add_options(CLI::App& app, Options& o) {
  add_course_options(app, o.course);
  app.add_option("--from-log", o.from_log, "costs from a run's log, evenstep-train --log");
  app.add_option("--solve", o.solve,
                 "print the best partition for a CSV of "
                 "rank,fixed_seconds,seconds_per_sample,floor_seconds,least,most");
  app.add_option("--write-trace", o.write_trace, "the trace that was simulated, as CSV");
  app.add_option("--balance", o.balances, "sizers, with commas; default: all")
      ->delimiter(',')
      ->check(one_of(lb::sizer_names()));
}

void refuse_with(const CLI::App& app, const char* flag, std::initializer_list<const char*> others) {
  for (const char* other : others)
    if (app.count(flag) > 0 && app.count(other) > 0)
      throw UsageError(fmt::format("{} and {} exclude each other; leave one out", flag, other));
}

void check_together(const CLI::App& app) {
  const char* chosen = nullptr;
  for (const char* source : sources) {
    if (app.count(source) == 0) continue;
    if (chosen != nullptr) refuse_with(app, chosen, {source});
    chosen = source;
  }
  if (chosen == nullptr)
    throw UsageError("nothing to do: give one of --trace, --from-log, --generate or --solve");
  refuse_with(app, "--solve",
              {"--ranks", "--steps", "--balance", "--predictor", "--noise", "--cold", "--lag",
               "--seed", "--summary", "--write-trace"});
  refuse_with(app, "--from-log", {"--ranks"});
  if (app.count("--solve") > 0 && app.count("--global-batch") == 0)
    throw UsageError("--solve needs --global-batch; give the samples to share out");
}

void keep_each_once(std::vector<std::string>& balances) {
  std::vector<std::string> kept;
  for (const std::string& balance : balances)
    if (!is_one_of(kept, balance)) kept.push_back(balance);
  balances = std::move(kept);
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("Simulates balanced training on virtual ranks.", "evenstep-sim");
  add_options(app, options);
  parse_command_line(app, argc, argv);
  check_together(app);
  for (const char* file : {"--trace", "--from-log", "--solve", "--write-trace", "--summary"})
    if (app.count(file) > 0 && app.get_option(file)->as<std::string>().empty())
      throw UsageError(fmt::format("{} has no name; name a file", file));
  if (options.balances.empty())
    options.balances.assign(lb::sizer_names().begin(), lb::sizer_names().end());
  keep_each_once(options.balances);
  return options;
}

}  // namespace evenstep::sim
