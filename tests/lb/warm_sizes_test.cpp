#include "lb/warm_sizes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "lb/simulator.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

struct Case {
  std::vector<RankCost> costs;
  std::vector<std::vector<Samples>> sizes;  // by rank
  Samples batch = 0;
};

Case random_case(Random& random) {
  Case c;
  const auto ranks = static_cast<std::size_t>(random.whole(1, 5));
  for (std::size_t r = 0; r < ranks; ++r) {
    c.costs.push_back(
        {{random.whole(0, 5000), random.whole(1, 9) * 1'000'000}, random.whole(0, 1)});
    auto& sizes = c.sizes.emplace_back();
    for (auto count = random.whole(1, 5); count > 0; --count) {
      const Samples size = random.whole(0, 90);
      if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
    }
    c.batch += sizes[static_cast<std::size_t>(
        random.whole(0, static_cast<std::int64_t>(sizes.size()) - 1))];
  }
  return c;
}

Nanoseconds best_of_all(const Case& c, std::size_t rank, Samples left, Nanoseconds so_far) {
  if (rank == c.costs.size()) return left == 0 ? so_far : largest_field;
  Nanoseconds best = largest_field;
  for (const Samples size : c.sizes[rank])
    if (size <= left && size >= c.costs[rank].least)
      best = std::min(best, best_of_all(c, rank + 1, left - size,
                                        std::max(so_far, finish_ns(c.costs[rank].cost, {}, size))));
  return best;
}

TEST_CASE("the best partition of warm sizes, to within 0.2 %") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    const Case c = random_case(random);
    if (c.batch == 0) continue;
    WarmSizes warm(c.costs.size(), c.batch, 1);
    for (std::size_t r = 0; r < c.sizes.size(); ++r)
      for (const Samples size : c.sizes[r]) warm.add(r, size);
    // A size of 0 is never new and not remembered.
    Case known = c;
    for (auto& sizes : known.sizes) std::erase(sizes, 0);
    const Nanoseconds best = best_of_all(known, 0, c.batch, 0);
    std::vector<Samples> shares(c.costs.size());
    const Nanoseconds finish = warm.solve(c.costs, {}, largest_field, shares);
    REQUIRE((finish == largest_field) == (best == largest_field));
    if (best == largest_field) continue;
    ++found;
    CHECK(finish >= best);
    CHECK(static_cast<double>(finish) <= 1.002 * static_cast<double>(best));
    CHECK(std::reduce(shares.begin(), shares.end()) == c.batch);
    CHECK(!warm.any_new(shares));
    CHECK(warm.solve(c.costs, {}, best, shares) == best);  // nothing is before the best
  }
  CHECK(found > 500);
}

TEST_CASE("only whole granules, and none where the granule does not divide the batch") {
  const std::vector<RankCost> costs(2, {{.per_sample_ps = 1'000'000}});
  std::vector<Samples> shares(2);
  WarmSizes warm(2, 24, 4);
  for (const Samples size : {8, 11, 13, 16})
    for (const std::size_t rank : {0, 1}) warm.add(rank, size);
  CHECK(warm.solve(costs, {}, largest_field, shares) == 16'000);
  CHECK(shares == std::vector<Samples>{16, 8});
  WarmSizes ragged(2, 25, 4);
  for (const std::size_t rank : {0, 1}) ragged.add(rank, rank == 0 ? 12 : 13);
  CHECK(ragged.solve(costs, {}, largest_field, shares) == largest_field);
}

TEST_CASE("the oldest size is forgotten when there are very many") {
  WarmSizes warm(1, 1000, 1);
  for (Samples size = 1; size <= 33; ++size) warm.add(0, size);
  CHECK(warm.is_new(0, 1));
  CHECK(!warm.is_new(0, 2));
  CHECK(!warm.is_new(0, 33));
}

double efficiency(const char* kind, double cold, const char* sizer = "even") {
  SimulationOptions options;
  options.batch = 128 * 16;
  options.cold = cold;
  double sum = 0;
  for (options.seed = 1; options.seed <= 3; ++options.seed) {
    const auto trace = make_trace(kind, 16, options.seed);
    const std::vector<std::string> sizers = {sizer};
    sum += simulate(*trace, options, sizers)[0].efficiency;
  }
  return sum / 3;
}

TEST_CASE("new sizes that cost ten steps are bought when they pay") {
  CHECK(efficiency("static", 10) >= 0.97);
  CHECK(efficiency("shifts", 10) >= 0.92);
  CHECK(efficiency("drift", 10) >= 0.83);
  CHECK(efficiency("dying", 10) >= 0.96);
  CHECK(efficiency("equal", 10) >= 0.99);
}

TEST_CASE("where sizes are not dear, nothing changes") {
  CHECK(efficiency("drift", 0.05) >= 0.93);  // every step is at new sizes
  CHECK(efficiency("static", 0.05) >= 0.99);
}

}  // namespace
}  // namespace evenstep::lb
