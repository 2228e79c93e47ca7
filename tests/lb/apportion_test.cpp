#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "lb/partition.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

TEST_CASE("apportion adds up and stays within 1 of the exact part") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (int i = 0; i < 20000; ++i) {
    std::vector<Samples> weights(static_cast<std::size_t>(random.whole(1, 40)));
    for (Samples& weight : weights) weight = random.any_size(largest_field);
    weights[0] += 1;
    const Samples batch = random.any_size(largest_field);
    std::vector<Samples> shares(weights.size());
    apportion(weights, batch, shares);
    REQUIRE(std::reduce(shares.begin(), shares.end()) == batch);
    const auto total = static_cast<long double>(std::reduce(weights.begin(), weights.end()));
    for (std::size_t r = 0; r < shares.size(); ++r) {
      const long double exact = static_cast<long double>(weights[r]) * batch / total;
      REQUIRE(std::abs(static_cast<double>(shares[r] - exact)) < 1.0001);
      if (weights[r] == 0) REQUIRE(shares[r] == 0);
    }
  }
}

TEST_CASE("partitions that differ have hashes that differ") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  int collisions = 0;
  constexpr int pairs = 200000;
  for (int i = 0; i < pairs; ++i) {
    std::vector<Samples> shares(static_cast<std::size_t>(random.whole(2, 8)));
    for (Samples& share : shares) share = random.whole(0, 64);
    const std::uint32_t hash = partition_hash(shares);
    REQUIRE(hash < (1U << 24));
    REQUIRE(hash == partition_hash(shares));
    const auto last = static_cast<std::int64_t>(shares.size()) - 1;
    const auto from = static_cast<std::size_t>(random.whole(0, last));
    const auto to = (from + static_cast<std::size_t>(random.whole(1, last))) % shares.size();
    shares[from] += 1;  // the smallest move there is: one sample from one rank to another
    shares[to] -= 1;
    collisions += partition_hash(shares) == hash ? 1 : 0;
  }
  CHECK(collisions <= 5);  // 200,000 / 2^24 = 0.01 expected
}

}  // namespace
}  // namespace evenstep::lb
