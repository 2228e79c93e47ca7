#include <doctest/doctest.h>

#include <stdexcept>

#include "lb/cost.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

constexpr Nanoseconds hour_ns = 3'600'000'000'000;
constexpr Picoseconds longest_sample_ps = largest_field;  // 281 s, the most a record carries

std::vector<std::int64_t> random_costs(Random& random) {
  std::vector<std::int64_t> costs(static_cast<std::size_t>(random.whole(2, 200)));
  for (auto& cost : costs) cost = random.any_size(hour_ns);
  costs.back() = std::max<std::int64_t>(1, costs.back());
  return costs;
}

Cost random_cost(Random& random) {
  return {.fixed_ns = random.chance(0.3) ? 0 : random.any_size(hour_ns),
          .per_sample_ps = random.chance(0.1) ? 0 : random.any_size(longest_sample_ps),
          .floor_ns = random.chance(0.5) ? 0 : random.any_size(hour_ns)};
}

TEST_CASE("finish_ns is the formula") {
  const Cost cost{.fixed_ns = 100, .per_sample_ps = 2500, .floor_ns = 110};
  CHECK(finish_ns(cost, {}, 0) == 0);
  CHECK(finish_ns(cost, {}, 1) == 110);
  CHECK(finish_ns(cost, {}, 5) == 112);
  CHECK(finish_ns(cost, {}, 1000) == 2600);
  CHECK(finish_ns({.per_sample_ps = longest_sample_ps}, {}, largest_field) == largest_field);
}

TEST_CASE("a size table is scaled to its last size and goes on in proportion") {
  const std::vector<std::int64_t> costs = {7, 30, 20, 70, 80};
  const SizeTable table(costs);
  const auto one = SizeTable::units_per_sample;
  CHECK(table.units(0) == 0);
  CHECK(table.units(1) == 4 * one * 30 / 80);
  CHECK(table.units(2) == 4 * one * 20 / 80);
  CHECK(table.units(3) == 4 * one * 70 / 80);
  CHECK(table.units(4) == 4 * one);
  CHECK(table.units(1000) == 1000 * one);
  CHECK(SizeTable{}.units(1000) == 1000 * one);
}

TEST_CASE("its hull is what a share as large or larger costs") {
  const SizeTable table(std::vector<std::int64_t>{7, 30, 20, 90, 80});
  const auto one = SizeTable::units_per_sample;
  CHECK(table.hull_units(0) == 0);
  CHECK(table.hull_units(1) == 4 * one * 20 / 80);
  CHECK(table.hull_units(2) == 4 * one * 20 / 80);
  CHECK(table.hull_units(3) == 4 * one);
  CHECK(table.hull_units(4) == 4 * one);
  CHECK(table.largest_share(4 * one - 1) == 2);
  CHECK(table.largest_share(4 * one) == 4);
  CHECK(SizeTable{}.hull_units(1000) == 1000 * one);
}

TEST_CASE("a size table refuses what it cannot scale") {
  using Costs = std::vector<std::int64_t>;
  CHECK_THROWS_AS(SizeTable(Costs{}), std::invalid_argument);
  CHECK_THROWS_AS(SizeTable(Costs{1}), std::invalid_argument);
  CHECK_THROWS_AS(SizeTable(Costs{0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(SizeTable(Costs{5, 6, -1}), std::invalid_argument);
}

TEST_CASE("a share that is not empty never counts as nothing") {
  const SizeTable table(std::vector<std::int64_t>{0, 1, 1'000'000'000});
  CHECK(table.units(1) > 0);
}

TEST_CASE("largest_share is the inverse of hull_finish_ns") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (int round = 0; round < 300; ++round) {
    const SizeTable table = random.chance(0.5) ? SizeTable(random_costs(random)) : SizeTable();
    for (int i = 0; i < 300; ++i) {
      const Cost cost = random_cost(random);
      const Nanoseconds time = random.any_size(hour_ns);
      const Samples share = largest_share(cost, table, time);
      INFO("fixed ", cost.fixed_ns, " per sample ", cost.per_sample_ps, " floor ", cost.floor_ns,
           " time ", time, " share ", share);
      REQUIRE(share >= 0);
      REQUIRE(hull_finish_ns(cost, table, share) <= time);
      const bool fast = share >= largest_field / SizeTable::units_per_sample;
      if (!fast) REQUIRE(hull_finish_ns(cost, table, share + 1) > time);
    }
  }
}

TEST_CASE("neither end of the scale overflows") {
  const Cost slow{.fixed_ns = hour_ns, .per_sample_ps = longest_sample_ps, .floor_ns = hour_ns};
  for (const Samples share : {Samples{1}, Samples{1} << 20, Samples{1} << 40, largest_field})
    CHECK(finish_ns(slow, {}, share) <= largest_field);
  CHECK(finish_ns(slow, {}, largest_field) == largest_field);
  CHECK(largest_share(slow, {}, -1) == 0);
  CHECK(largest_share(slow, {}, hour_ns - 1) == 0);
  CHECK(largest_share(slow, {}, largest_field) == largest_field);
  CHECK(largest_share({}, {}, 0) == largest_field);
}

TEST_CASE("shares never shrink as time grows") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (int i = 0; i < 2000; ++i) {
    const SizeTable table(random_costs(random));
    const Cost cost = random_cost(random);
    Samples last = 0;
    for (Nanoseconds time = 0; time <= largest_field / 2; time = 2 * time + random.whole(1, 9)) {
      const Samples share = largest_share(cost, table, time);
      REQUIRE(share >= last);
      last = share;
    }
  }
}

}  // namespace
}  // namespace evenstep::lb
