#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>
#include <queue>
#include <string>

#include "lb/partition.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

struct Case {
  std::vector<RankCost> ranks;
  Samples batch = 0;
  Samples granule = 1;
  SizeTable table;

  SolverInput input() const { return {ranks, batch, granule, &table, 0}; }
  Samples rest() const { return batch % granule; }
  Samples floor(Samples share) const { return share - share % granule; }
  // What partition.h says `least` comes to.
  Samples least(std::size_t r) const {
    return std::min(floor(ranks[r].least + granule - 1), floor(ranks[r].most));
  }
  bool least_holds() const {
    Samples sum = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) sum += least(r);
    return sum <= batch - rest();
  }
  std::string text() const {
    std::string out = fmt::format("batch {} granule {}", batch, granule);
    for (const auto& [cost, least, most] : ranks)
      out += fmt::format("; {} {} {} in {}..{}", cost.fixed_ns, cost.per_sample_ps, cost.floor_ns,
                         least, most);
    out += "; table";
    for (Samples b = 0; b <= batch; ++b) out += fmt::format(" {}", table.units(b));
    return out;
  }
};

// Tries all partitions that the contract allows, rank by rank.
class BruteForce {
 public:
  explicit BruteForce(const Case& c) : case_(c), least_holds_(c.least_holds()) {
    try_rank(0, c.batch - c.rest(), c.rest() == 0, 0);
  }
  // -1: there is no partition.
  Nanoseconds finish_ns() const { return best_; }

 private:
  void try_rank(std::size_t r, Samples left, bool rest_taken, Nanoseconds finish) {
    if (r == case_.ranks.size()) {
      if (left == 0 && rest_taken && (best_ < 0 || finish < best_)) best_ = finish;
      return;
    }
    for (Samples whole = least_holds_ ? case_.least(r) : 0; whole <= left; whole += case_.granule) {
      try_share(r, left - whole, rest_taken, finish, whole);
      if (!rest_taken) try_share(r, left - whole, true, finish, whole + case_.rest());
    }
  }
  void try_share(std::size_t r, Samples left, bool rest_taken, Nanoseconds finish, Samples share) {
    const RankCost& rank = case_.ranks[r];
    if (share > rank.most) return;
    try_rank(r + 1, left, rest_taken,
             std::max(finish, lb::hull_finish_ns(rank.cost, case_.table, share)));
  }

  const Case& case_;
  bool least_holds_;
  Nanoseconds best_ = -1;
};

Samples random_most(const Case& c, Random& random) {
  if (random.chance(0.5)) return largest_field;
  return random.whole(0, std::max<Samples>(1, c.batch));
}

// Few different numbers, so that ties and plateaus are common; or any numbers.
Case random_case(Random& random, std::size_t ranks, Samples batch) {
  Case c{.ranks = {}, .batch = batch, .granule = random.whole(1, 3), .table = {}};
  const bool few = random.chance(0.7);
  const auto number = [&](double zero, std::int64_t most) {
    if (random.chance(zero)) return std::int64_t{0};
    return few ? random.whole(0, 6) * 1000 : random.any_size(most);
  };
  for (std::size_t r = 0; r < ranks; ++r) {
    RankCost rank{{number(0.5, 1'000'000), number(0.1, 1'000'000'000), number(0.6, 1'000'000)}};
    rank.most = random_most(c, random);
    if (random.chance(0.4)) rank.least = random.whole(0, std::min<Samples>(rank.most, 6));
    c.ranks.push_back(rank);
  }
  if (random.chance(0.5)) {
    std::vector<std::int64_t> costs(static_cast<std::size_t>(random.whole(2, 16)));
    for (auto& cost : costs) cost = random.whole(0, 20);
    costs.back() += 1;
    c.table = SizeTable(costs);
  }
  return c;
}

void check_allowed(const Case& c, std::span<const Samples> shares) {
  int ragged = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    REQUIRE(shares[r] >= (c.least_holds() ? c.least(r) : 0));
    REQUIRE(shares[r] <= c.ranks[r].most);
    ragged += shares[r] % c.granule != 0 ? 1 : 0;
  }
  REQUIRE(std::reduce(shares.begin(), shares.end()) == c.batch);
  REQUIRE(ragged <= (c.rest() != 0 ? 1 : 0));
}

void check_infeasible(const Case& c) {
  std::vector<Samples> shares(c.ranks.size());
  Samples most = 0;
  for (const RankCost& rank : c.ranks) most += c.floor(std::min(rank.most, c.batch));
  try {
    solve_partition(c.input(), shares);
    FAIL("a partition came out where there is none");
  } catch (const InfeasiblePartition& error) {
    const std::string text = error.what();
    CHECK(text.find(std::to_string(c.batch)) != std::string::npos);
    CHECK(text.find("at most " + std::to_string(most) + " samples") != std::string::npos);
  }
}

// Returns whether the case had a solution.
bool check_against_brute_force(const Case& c, Random& random) {
  INFO(c.text());
  const Nanoseconds best = BruteForce(c).finish_ns();
  if (best < 0) {
    check_infeasible(c);
    return false;
  }
  std::vector<Samples> shares(c.ranks.size(), -7);
  const Nanoseconds finish = solve_partition(c.input(), shares);
  check_allowed(c, shares);
  REQUIRE(finish == best);
  Nanoseconds latest = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    latest = std::max(latest, hull_finish_ns(c.ranks[r].cost, c.table, shares[r]));
  REQUIRE(latest == finish);
  std::vector<Samples> again(c.ranks.size(), 99);
  SolverInput near = c.input();
  near.near = random.chance(0.5) ? random.whole(0, 2 * finish) : random.any_size(largest_field);
  REQUIRE(solve_partition(near, again) == finish);
  REQUIRE(again == shares);
  return true;
}

TEST_CASE("the solver finds the minimum over all partitions") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  int solved = 0;
  for (std::size_t ranks = 1; ranks <= 4; ++ranks)
    for (Samples batch = 0; batch <= 12; ++batch)
      for (int i = 0; i < 400; ++i)
        solved += check_against_brute_force(random_case(random, ranks, batch), random) ? 1 : 0;
  CHECK(solved > 10000);
  CHECK(solved < 4 * 13 * 400);
}

// Exact where shares are whole granules: the next granule always goes to the earliest finisher.
Nanoseconds greedy_finish_ns(const Case& c) {
  std::vector<Samples> shares(c.ranks.size());
  Samples left = c.batch;
  using Entry = std::pair<Nanoseconds, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
  const auto offer = [&](std::size_t r) {
    if (shares[r] + c.granule <= c.ranks[r].most)
      next.emplace(hull_finish_ns(c.ranks[r].cost, c.table, shares[r] + c.granule), r);
  };
  for (std::size_t r = 0; r < shares.size(); ++r) {
    left -= shares[r] = c.least(r);
    offer(r);
  }
  for (; left > 0; left -= c.granule) {
    const std::size_t r = next.top().second;
    next.pop();
    shares[r] += c.granule;
    offer(r);
  }
  Nanoseconds finish = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    finish = std::max(finish, hull_finish_ns(c.ranks[r].cost, c.table, shares[r]));
  return finish;
}

TEST_CASE("1,024 ranks: as good as handing out granules one by one") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (int round = 0; round < 20; ++round) {
    Case c{.ranks = {}, .batch = 0, .granule = random.whole(1, 4), .table = {}};
    Samples room = 0;
    for (int r = 0; r < 1024; ++r) {
      RankCost rank{{random.whole(0, 60'000'000), random.whole(10'000'000, 2'000'000'000),
                     random.whole(0, 80'000'000)}};
      if (random.chance(0.2)) rank.least = c.granule * random.whole(0, 3);
      rank.most = rank.least + random.whole(20, 400);
      room += c.floor(rank.most);
      c.ranks.push_back(rank);
    }
    if (round % 2 == 1) c.table = SizeTable(std::vector<std::int64_t>{0, 5, 6, 9, 10, 13, 14, 15});
    c.batch = c.floor(static_cast<Samples>(random.real(0.05, 1) * static_cast<double>(room)));
    REQUIRE(c.least_holds());
    std::vector<Samples> shares(c.ranks.size());
    const Nanoseconds finish = solve_partition(c.input(), shares);
    check_allowed(c, shares);
    CHECK(finish == greedy_finish_ns(c));
  }
}

TEST_CASE("among equals the lowest ranks take what is left") {
  const Case c{.ranks = std::vector<RankCost>(5, {{.per_sample_ps = 1'000'000}}),
               .batch = 12,
               .granule = 1,
               .table = {}};
  std::vector<Samples> shares(5);
  solve_partition(c.input(), shares);
  CHECK(shares == std::vector<Samples>{3, 3, 2, 2, 2});
}

TEST_CASE("least is waived only where the batch is too short for it") {
  Case c{.ranks = std::vector<RankCost>(3, {{.per_sample_ps = 1000}, 4}),
         .batch = 12,
         .granule = 1,
         .table = {}};
  c.ranks[0].cost.per_sample_ps = 1'000'000;
  std::vector<Samples> shares(3);
  solve_partition(c.input(), shares);
  CHECK(shares == std::vector<Samples>{4, 4, 4});
  c.batch = 11;
  solve_partition(c.input(), shares);
  CHECK(shares == std::vector<Samples>{0, 6, 5});
}

TEST_CASE("a most below the granule is kept though a least asks for more") {
  const Case c{.ranks = {{{.per_sample_ps = 1000}, 4, 3}, {{.per_sample_ps = 1000}}},
               .batch = 8,
               .granule = 4,
               .table = {}};
  std::vector<Samples> shares(2);
  solve_partition(c.input(), shares);
  CHECK(shares == std::vector<Samples>{0, 8});
}

TEST_CASE("samples of minutes and batches of millions do not overflow") {
  const Case c{.ranks = std::vector<RankCost>(
                   7, {{.fixed_ns = 3'600'000'000'000, .per_sample_ps = largest_field}}),
               .batch = 50'000'000,
               .granule = 8,
               .table = {}};
  std::vector<Samples> shares(7);
  CHECK(solve_partition(c.input(), shares) == largest_field);
  CHECK(std::reduce(shares.begin(), shares.end()) == c.batch);
}

}  // namespace
}  // namespace evenstep::lb
