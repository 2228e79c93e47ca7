#include <fmt/format.h>

#include "bench/calls.h"
#include "bench/job.h"

namespace evenstep::bench {
namespace {

constexpr int steps_of_calls = 20;

struct Found {
  std::vector<double> ratios;
  std::vector<double> step_seconds;
  double deciding = 0;
  int resizes = 0;
};

void compare(Job& off, Job& even, int pairs, Found& found) {
  for (const Turn& turn : take_turns(off, even, pairs)) {
    found.ratios.push_back(turn.ratio());
    found.step_seconds.push_back(turn.base / steps_a_turn);
  }
  const int steps = warm_up_steps + pairs * steps_a_turn;
  found.deciding = 1e-9 * static_cast<double>(even.session().balance_ns()) / steps;
  found.resizes += even.session().resizes();
}

}  // namespace

Json measure_balancing(Communicator& communicator, const Options& options) {
  Work work(communicator, options, 1);
  Found found;
  with_new_jobs(
      options.pairs,
      [&](int which) {
        const char* balance = which == 0 ? "off" : "even";
        return std::make_unique<Job>(communicator, options, work, balance);
      },
      [&](Job& off, Job& even, int pairs) { compare(off, even, pairs, found); });
  Job even(communicator, options, work, "even");
  even.run(warm_up_steps);
  const double overhead = median(found.ratios) - 1;
  const Json calls = count_calls(steps_of_calls, [&](int count) { even.run(count); });
  if (communicator.rank() == 0) {
    fmt::print(
        "balancing {} equal ranks, {}: {:+.2f} % (median of {} pairs, steps of {:.1f} ms, {:.1f} "
        "us of each for deciding, {} re-sizes)\n",
        communicator.size(), options.model, 100 * overhead, options.pairs,
        1e3 * median(found.step_seconds), 1e6 * found.deciding, found.resizes);
    fmt::print("a steady step calls:");
    for (const auto& [what, count] : calls.items())
      fmt::print(" {} {}", what,
                 count.is_null() ? "unknown" : fmt::format("{:.2f}", double(count)));
    fmt::print("\n");
  }
  return {{"ranks", communicator.size()},
          {"model", options.model},
          {"pairs", options.pairs},
          {"step_seconds", median(found.step_seconds)},
          {"overhead", overhead},
          {"ratios", found.ratios},
          {"deciding_seconds", found.deciding},
          {"resizes", found.resizes},
          {"steady_step", calls}};
}

}  // namespace evenstep::bench
