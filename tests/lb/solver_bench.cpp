// How long the solver takes: `meson test -C build --benchmark lb-solver`. Costs change by a few
// percent from one solve to the next, as they do from step to step.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lb/partition.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

std::vector<RankCost> random_ranks(Random& random, int ranks, bool floors) {
  std::vector<RankCost> costs(static_cast<std::size_t>(ranks));
  for (RankCost& rank : costs) {
    rank.cost = {random.whole(1'000'000, 8'000'000), random.whole(300'000'000, 2'000'000'000)};
    if (!floors) continue;
    rank.cost.floor_ns = random.whole(20'000'000, 140'000'000);
    rank.most = 200;
  }
  return costs;
}

// The median of some hundred solves, in microseconds.
double solve_us(Random& random, int ranks, bool floors) {
  std::vector<RankCost> costs = random_ranks(random, ranks, floors);
  std::vector<Samples> shares(costs.size());
  std::vector<double> times(static_cast<std::size_t>(std::clamp(1'000'000 / ranks, 30, 1000)));
  Nanoseconds finish = 0;
  for (double& time : times) {
    for (RankCost& rank : costs)
      rank.cost.per_sample_ps = rank.cost.per_sample_ps * random.whole(97, 103) / 100;
    const auto start = std::chrono::steady_clock::now();
    finish = solve_partition({costs, Samples{128} * ranks, 1, nullptr, finish}, shares);
    time =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace
}  // namespace evenstep::lb

int main() {
  evenstep::lb::Random random(7);
  fmt::print("{:>8}  {:>12}  {:>16}\n", "ranks", "linear, us", "with floors, us");
  for (const int ranks : {4, 16, 256, 1024, 10'000, 100'000})
    fmt::print("{:>8}  {:>12.1f}  {:>16.1f}\n", ranks, evenstep::lb::solve_us(random, ranks, false),
               evenstep::lb::solve_us(random, ranks, true));
}
