// "Never worse than the best seen": costs that mislead the model. Seeds are fixed.
#include <doctest/doctest.h>

#include <memory>

#include "tests/lb/virtual_ranks.h"

namespace evenstep::lb {
namespace {

// Rank 3 is slower, so the others are to take more; yet a share over the threshold costs extra.
TrueCost threshold_cost(double slowness, Samples threshold, double jump) {
  return [=](int rank, Samples share, int) {
    return 1e6 * static_cast<double>(share) * (rank == 3 ? slowness : 1) *
           (share > threshold ? jump : 1);
  };
}

void check_never_worse(const TrueCost& cost, double most, int seed, int lag) {
  VirtualRanks::Setup setup{.options = {.batch = 128, .lag = lag, .table = {}},
                            .ranks = 4,
                            .cost = cost,
                            .noise = 0.03,
                            .seed = static_cast<std::uint64_t>(seed)};
  VirtualRanks even(setup);
  VirtualRanks off(with_sizer(setup, "off"));
  even.run(3000);
  off.run(3000);
  CHECK(even.mean_ns() <= most * off.mean_ns());
  CHECK(even.mean_ns(1000) <= most * off.mean_ns(1000));
}

TEST_CASE("proposals that turn out worse are undone, and come ever more rarely") {
  for (const int lag : {0, 1})
    for (int seed = 1; seed <= 10; ++seed) {
      INFO("lag ", lag, " seed ", seed);
      const double most = lag == 0 ? 1.02 : 1.05;  // a lost trial lasts a step longer
      check_never_worse(threshold_cost(1.3, 33, 1.6), most, seed, lag);
      check_never_worse(threshold_cost(1.3, 32, 1.2), most, seed, lag);
      check_never_worse(threshold_cost(1.1, 32, 1.15), most, seed, lag);
      check_never_worse(threshold_cost(1.5, 32, 3), 1.05, seed, lag);
    }
}

TEST_CASE("a threshold in the way of one rank only leaves the others to be balanced") {
  const TrueCost cost = [](int rank, Samples share, int) {
    return 1e6 * static_cast<double>(share) * (rank == 3 ? 1.3 : 1) *
           (rank == 0 && share > 34 ? 2 : 1);
  };
  for (int seed = 1; seed <= 5; ++seed) check_never_worse(cost, 1.0, seed, 0);
}

TEST_CASE("ranks with one double step in ten are left about as they are") {
  for (const int lag : {0, 1})
    for (int seed = 1; seed <= 5; ++seed) {
      INFO("lag ", lag, " seed ", seed);
      const auto random = std::make_shared<Random>(seed);
      VirtualRanks::Setup setup{.options = {.batch = 256, .lag = lag, .table = {}},
                                .ranks = 4,
                                .cost = linear_cost({0.001, 0.001, 0.001, 0.001}),
                                .noise = 0.03,
                                .seed = static_cast<std::uint64_t>(seed)};
      setup.disturb = [=](int, std::vector<Record>& records) {
        for (Record& record : records)
          if (random->chance(0.1)) record.own_ns *= 2;
      };
      VirtualRanks even(setup);
      even.run(2000);
      *random = Random(static_cast<std::uint64_t>(seed));
      VirtualRanks off(with_sizer(setup, "off"));
      off.run(2000);
      CHECK(even.mean_ns() <= 1.03 * off.mean_ns());
    }
}

}  // namespace
}  // namespace evenstep::lb
