#include "common/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace evenstep {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const lb::SimulationResult& result) {
  return {{"mean_step_seconds", result.mean_step_seconds},
          {"samples_per_second", result.samples_per_second},
          {"efficiency", result.efficiency},
          {"speedup", result.speedup},
          {"load_balance", result.load_balance},
          {"resizes", result.resizes},
          {"worst_window", result.worst_window},
          {"recover_steps", result.recover_steps}};
}

std::string median(std::vector<std::int64_t> steps) {
  if (steps.empty()) return "-";
  std::ranges::sort(steps);
  return fmt::format("{}", steps[steps.size() / 2]);
}

}  // namespace

ordered_json to_json(const Results& results) {
  ordered_json json = ordered_json::object();
  for (std::size_t i = 0; i < results.sizers.size(); ++i)
    json[results.sizers[i]] = to_json(results.achieved[i]);
  return json;
}

ordered_json describe_run(const std::string& source, int ranks,
                          const lb::SimulationOptions& options) {
  return {{"ranks", ranks},
          {"global_batch", options.batch},
          {"steps", options.steps},
          {"trace", source},
          {"granule", options.granule},
          {"noise", options.noise.sigma},
          {"cold", options.cold},
          {"lag", options.lag},
          {"seed", options.seed}};
}

void print_run(const std::string& source, int ranks, const lb::SimulationOptions& options) {
  fmt::print("{}: {} {}, global batch {}, {} steps, noise {:.3g}, cold {:g}, lag {}, seed {}\n",
             source, ranks, ranks == 1 ? "rank" : "ranks", options.batch, options.steps,
             options.noise.sigma, options.cold, options.lag, options.seed);
}

void print_table(const Results& results) {
  fmt::print("{:<15} {:>9} {:>11} {:>8} {:>9} {:>10} {:>8} {:>9} {:>8}\n", "balance", "step ms",
             "samples/s", "load", "speed-up", "efficiency", "re-sizes", "worst 50", "recover");
  for (std::size_t i = 0; i < results.sizers.size(); ++i) {
    const lb::SimulationResult& r = results.achieved[i];
    fmt::print("{:<15} {:>9.2f} {:>11.1f} {:>8.3f} {:>9.3f} {:>10.4f} {:>8} {:>9.3f} {:>8}\n",
               results.sizers[i], 1e3 * r.mean_step_seconds, r.samples_per_second, r.load_balance,
               r.speedup, r.efficiency, r.resizes, r.worst_window, median(r.recover_steps));
  }
}

}  // namespace evenstep
