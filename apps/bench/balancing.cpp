#include <fmt/format.h>

#include "bench/calls.h"
#include "bench/job.h"

namespace evenstep::bench {
namespace {

constexpr int warm_up_steps = 20;
constexpr int steps_a_block = 4;  // short, so that what else the machine does meets both alike
constexpr int steps_of_calls = 20;

}  // namespace

Json measure_balancing(Communicator& communicator, const Options& options) {
  Job off(communicator, options, {.balance = "off"});
  Job even(communicator, options, {.balance = "even"});
  off.run(warm_up_steps);
  even.run(warm_up_steps);
  std::vector<double> ratios;
  std::vector<double> step_seconds;
  for (int pair = 0; pair < options.pairs; ++pair) {
    const bool even_first = pair % 2 == 1;  // each has as often the other before it
    const double first = (even_first ? even : off).run(steps_a_block);
    const double second = (even_first ? off : even).run(steps_a_block);
    ratios.push_back(even_first ? first / second : second / first);
    step_seconds.push_back((even_first ? second : first) / steps_a_block);
  }
  const int steps = options.pairs * steps_a_block + warm_up_steps;
  const double deciding = 1e-9 * static_cast<double>(even.session().balance_ns()) / steps;
  const double overhead = median(ratios) - 1;
  const Json calls = count_calls(steps_of_calls, [&](int count) { even.run(count); });
  if (communicator.rank() == 0) {
    fmt::print(
        "balancing {} equal ranks, {}: {:+.2f} % (median of {} pairs, steps of {:.1f} ms, {:.1f} "
        "us of each for deciding, {} re-sizes)\n",
        communicator.size(), options.model, 100 * overhead, options.pairs,
        1e3 * median(step_seconds), 1e6 * deciding, even.session().resizes());
    fmt::print("a steady step calls:");
    for (const auto& [what, count] : calls.items())
      fmt::print(" {} {}", what,
                 count.is_null() ? "unknown" : fmt::format("{:.2f}", double(count)));
    fmt::print("\n");
  }
  return {{"ranks", communicator.size()}, {"model", options.model},
          {"pairs", options.pairs},       {"step_seconds", median(step_seconds)},
          {"overhead", overhead},         {"ratios", ratios},
          {"deciding_seconds", deciding}, {"resizes", even.session().resizes()},
          {"steady_step", calls}};
}

}  // namespace evenstep::bench
