#include "lb/balancer.h"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/allocations.h"
#include "tests/lb/virtual_ranks.h"

namespace evenstep::lb {
namespace {

using Shares = std::vector<Samples>;

Shares shares_of(const Balancer& balancer) {
  return {balancer.partition().begin(), balancer.partition().end()};
}

std::string error_of(const BalancerOptions& options, std::span<const Record> start) {
  try {
    const Balancer balancer(options, start);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Records of ranks of the given speeds, one of which now and then changes.
std::vector<Record> random_records(const Balancer& balancer, std::vector<double>& speeds,
                                   Random& random) {
  std::vector<Record> records;
  for (const Samples share : balancer.partition()) {
    double& speed = speeds[records.size()];
    if (random.chance(0.01)) speed = random.real(0.3, 3);
    records.push_back({.samples = share});
    if (share > 0)
      records.back().own_ns =
          static_cast<Nanoseconds>(1e6 * speed * static_cast<double>(share) * random.noise(0.1));
    if (random.chance(0.02)) records.back().flags = flag_cold;
  }
  return records;
}

TEST_CASE("replicas fed the same records hold the same partition, and observe allocates nothing") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (const char* sizer : {"even", "off", "static"})
    for (const int ranks : {1, 2, 5, 33}) {
      const BalancerOptions options{
          .sizer = sizer, .batch = 301, .granule = ranks < 5 ? 4 : 1, .lag = 1, .table = {}};
      const std::vector<Record> start(static_cast<std::size_t>(ranks), {.per_sample_ps = 5000});
      Balancer one(options, start);
      Balancer other(options, start);
      std::vector<double> speeds(start.size(), 1);
      for (int step = 0; step < 1500; ++step) {
        const auto records = random_records(one, speeds, random);
        const long before = allocations;
        const Decision decision = one.observe(records);
        REQUIRE(allocations == before);
        REQUIRE(other.observe(records) == decision);
        REQUIRE(shares_of(one) == shares_of(other));
        REQUIRE(one.resizes() == other.resizes());
      }
      if (ranks > 1 && std::string_view(sizer) == "even") CHECK(one.resizes() > 0);
    }
}

TEST_CASE("shares always add up, in granules, for any number of ranks and any batch") {
  for (const char* sizer : {"even", "off"})
    for (const int ranks : {1, 2, 4, 7})
      for (const Samples batch : {1, 2, 3, 4, 7, 13, 64})
        for (const Samples granule : {1, 2, 4}) {
          INFO(sizer, " ", ranks, " ranks, batch ", batch, " granule ", granule);
          std::vector<double> speeds{1, 3, 2, 5, 1, 2, 9};
          VirtualRanks run(
              {.options = {.sizer = sizer, .batch = batch, .granule = granule, .table = {}},
               .ranks = ranks,
               .cost = linear_cost(speeds),
               .noise = 0.03});
          run.run(60);
          for (const auto& step : run.history()) {
            REQUIRE(std::reduce(step.shares.begin(), step.shares.end()) == batch);
            int ragged = 0;
            for (const Samples share : step.shares) {
              REQUIRE(share >= 0);
              ragged += share % granule != 0 ? 1 : 0;
            }
            REQUIRE(ragged <= 1);
          }
          const bool may_move = std::string_view(sizer) == "even" && ranks > 1;
          if (!may_move) CHECK(run.balancer().resizes() == 0);
        }
}

TEST_CASE("off starts and stays even, whatever happens") {
  VirtualRanks run({.options = {.sizer = "off", .batch = 130, .table = {}},
                    .cost = linear_cost({1, 2, 3, 9}),
                    .noise = 0.2});
  run.run(300);
  const Shares shares = shares_of(run.balancer());
  CHECK(std::ranges::max(shares) - std::ranges::min(shares) <= 1);
  CHECK(run.balancer().resizes() == 0);
}

TEST_CASE("static cuts the batch once, by the ranks' benchmarks") {
  std::vector<Record> start{
      {.per_sample_ps = 1000}, {.per_sample_ps = 3000}, {.per_sample_ps = 1500}};
  const BalancerOptions options{.sizer = "static", .batch = 120, .table = {}};
  VirtualRanks run(
      {.options = options, .ranks = 3, .cost = linear_cost({9, 1, 1}), .start = start});
  run.run(200);
  CHECK(shares_of(run.balancer()) == Shares{60, 20, 40});
  CHECK(run.balancer().resizes() == 0);
  start[2].per_sample_ps = 0;
  CHECK(error_of(options, start).find("rank 2") != std::string::npos);
}

TEST_CASE("the first partition keeps the ranks' limits, or says why it cannot") {
  const std::vector<Record> start{{.most = 10}, {}, {.least = 60}, {}};
  const BalancerOptions options{.batch = 128, .table = {}};
  const Balancer balancer(options, start);
  const Shares shares = shares_of(balancer);
  CHECK(shares[0] == 10);
  CHECK(shares[2] == 60);
  CHECK(std::reduce(shares.begin(), shares.end()) == 128);
  const std::string error = error_of(options, std::vector<Record>(4, {.most = 24}));
  CHECK(error.find("96") != std::string::npos);
  CHECK(error.find("128") != std::string::npos);
}

TEST_CASE("even keeps limits that are not whole granules") {
  const std::vector<Record> start{{.most = 6}, {.least = 5}, {.most = 3}, {}};
  VirtualRanks run({.options = {.batch = 64, .granule = 4, .table = {}},
                    .cost = linear_cost({1, 9, 1, 1}),
                    .disturb =
                        [&](int, std::vector<Record>& records) {
                          for (std::size_t r = 0; r < records.size(); ++r) {
                            records[r].least = start[r].least;
                            records[r].most = start[r].most;
                          }
                        },
                    .start = start});
  run.run(50);
  CHECK(shares_of(run.balancer()) == Shares{4, 8, 0, 52});
}

TEST_CASE("a short last batch is cut in the partition's proportions and misleads no one") {
  const Balancer balancer({.batch = 100, .table = {}}, std::vector<Record>(4));
  Shares shares(4);
  for (const Samples batch : {0, 1, 3, 40, 99}) {
    balancer.cut(batch, shares);
    CHECK(std::reduce(shares.begin(), shares.end()) == batch);
    for (const Samples share : shares) CHECK(std::abs(share - batch / 4) <= 1);
  }
  Balancer even({.batch = 100, .table = {}}, std::vector<Record>(4));
  std::vector<Record> records(4);
  for (int step = 0; step < 200; ++step) {
    even.cut(step % 10 == 9 ? 5 : 100, shares);
    for (std::size_t r = 0; r < 4; ++r)
      records[r] = {.samples = shares[r], .own_ns = 1'000'000 * shares[r]};
    even.observe(records);
  }
  CHECK(even.resizes() == 0);
}

TEST_CASE("an unknown sizer is refused with the names there are") {
  const std::string error =
      error_of({.sizer = "evn", .batch = 8, .table = {}}, std::vector<Record>(2));
  for (const std::string_view name : sizer_names()) CHECK(error.find(name) != std::string::npos);
  CHECK(error.find("evn") != std::string::npos);
}

}  // namespace
}  // namespace evenstep::lb
