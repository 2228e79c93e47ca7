// evenstep-sim: what balancing would gain, on virtual ranks.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "common/results.h"
#include "common/trace_file.h"
#include "evenstep/error.h"
#include "sim/log_trace.h"
#include "sim/options.h"
#include "sim/solve.h"

namespace evenstep::sim {
namespace {

using nlohmann::ordered_json;

Results run(const Options& options, Source& source, const lb::SimulationOptions& settled) {
  if (!options.write_trace.empty())
    source.trace =
        std::make_unique<TraceWriter>(std::move(source.trace), options.write_trace, settled.steps);
  return {options.balances, lb::simulate(*source.trace, settled, options.balances)};
}

ordered_json simulate_source(const Options& options, Source source) {
  const lb::SimulationOptions settled = settle(options.course, source);
  const int ranks = source.trace->ranks();
  const Results results = run(options, source, settled);
  print_run(source.name, ranks, settled);
  print_table(results);
  ordered_json summary = describe_run(source.name, ranks, settled);
  summary["results"] = to_json(results);
  return summary;
}

Source source_of(const RunLog& log, const Options& options, Split split) {
  return {
      options.from_log, log.trace(split), {.sigma = log.noise()}, log.steps(), log.global_batch()};
}

// The log of a run with constant shares does not tell fixed costs: then the truth lies between two
// beliefs, and both are simulated.
ordered_json simulate_log(const Options& options) {
  const RunLog log(options.from_log);
  if (log.ranks_unknown() == 0) {
    fmt::print("fixed and per-sample cost of all ranks: fitted where their shares varied\n");
    ordered_json summary = simulate_source(options, source_of(log, options, Split::all_per_sample));
    summary["assumed"] = "nothing: shares varied enough to tell fixed from per-sample cost";
    return summary;
  }
  if (!options.write_trace.empty())
    throw UsageError(fmt::format(
        "--write-trace: {} does not tell fixed from per-sample cost of {} ranks, so that there is "
        "no one trace to write; log a run with --balance even",
        options.from_log, log.ranks_unknown()));
  fmt::print(
      "{} of {} ranks had near constant shares: their fixed cost cannot be told from their "
      "cost per sample.\n\nAssumed: no fixed cost, the most that balancing can gain\n",
      log.ranks_unknown(), log.ranks());
  ordered_json summary = simulate_source(options, source_of(log, options, Split::all_per_sample));
  fmt::print("\nAssumed: half of their time at their mean share is fixed\n");
  const ordered_json half = simulate_source(options, source_of(log, options, Split::half_fixed));
  summary["assumed"] = fmt::format(
      "fixed and per-sample cost of {} ranks cannot be told apart: results take all of their time "
      "as per sample, results_half_fixed takes half of it, at their mean share, as fixed",
      log.ranks_unknown());
  summary["results_half_fixed"] = half["results"];
  return summary;
}

int run(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  if (!options.solve.empty()) {
    check_granule(options.course.global_batch, options.course.granule);
    solve_file(options.solve, options.course.global_batch, options.course.granule);
    return 0;
  }
  // Opened first: a path that cannot be written is known before a long run.
  OutputFile file(options.course.summary, OutputFile::Kind::whole);
  const ordered_json summary = options.from_log.empty()
                                   ? simulate_source(options, open_source(options.course))
                                   : simulate_log(options);
  file.write(summary.dump(2) + "\n");
  file.commit();
  return 0;
}

int report(const std::exception& error, int exit_code) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", error.what());
  return exit_code;
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const TextAsked& asked) {
    fmt::print("{}", asked.text);
    return 0;
  } catch (const Error& error) {
    return report(error, error.exit_code());
  } catch (const std::exception& error) {
    return report(error, 1);
  }
}

}  // namespace
}  // namespace evenstep::sim

int main(int argc, char** argv) { return evenstep::sim::run_and_report(argc, argv); }
