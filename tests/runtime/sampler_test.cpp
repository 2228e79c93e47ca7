#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "evenstep/error.h"
#include "evenstep/sampler.h"

using evenstep::Sampler;

TEST_CASE("every sample exactly once an epoch, for any size") {
  for (std::int64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4096, 4097, 60000}) {
    const Sampler sampler(n, 42);
    for (std::int64_t epoch : {0, 1, 7}) {
      std::vector<int> seen(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i)
        ++seen.at(static_cast<std::size_t>(sampler.at(epoch, i)));
      CAPTURE(n);
      CHECK(std::ranges::all_of(seen, [](int count) { return count == 1; }));
    }
  }
}

TEST_CASE("orders differ by epoch and seed, and are the same for the same key") {
  const Sampler one(1000, 1);
  const Sampler same(1000, 1);
  const Sampler other(1000, 2);
  int equal_epochs = 0;
  int equal_seeds = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    CHECK(one.at(3, i) == same.at(3, i));
    equal_epochs += one.at(0, i) == one.at(1, i);
    equal_seeds += one.at(0, i) == other.at(0, i);
  }
  // A random permutation agrees with another in one place on average (Poisson).
  CHECK(equal_epochs < 10);
  CHECK(equal_seeds < 10);
}

TEST_CASE("positions spread evenly: no drift from position to sample") {
  // Mean sample of each tenth of the order: uniform gives n/2 with deviation n/sqrt(12 * n/10).
  constexpr std::int64_t n = 60000;
  const Sampler sampler(n, 7);
  for (std::int64_t part = 0; part < 10; ++part) {
    double sum = 0;
    for (std::int64_t i = part * n / 10; i < (part + 1) * n / 10; ++i)
      sum += static_cast<double>(sampler.at(0, i));
    CHECK(10 * sum / n == doctest::Approx(n / 2.0).epsilon(0.04));
  }
  // Neighbours in the order are not neighbours in the data.
  int close = 0;
  for (std::int64_t i = 0; i + 1 < n; ++i)
    close += std::abs(sampler.at(0, i) - sampler.at(0, i + 1)) < n / 100;
  CHECK(close == doctest::Approx(n * 0.0199).epsilon(0.2));
}

TEST_CASE("huge data sets stay in range") {
  const std::int64_t n = (std::int64_t{1} << 40) + 12345;
  const Sampler sampler(n, 9);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 10000; ++i) {
    const std::int64_t sample = sampler.at(5, n - 1 - i);
    CHECK(sample >= 0);
    CHECK(sample < n);
    seen.insert(sample);
  }
  CHECK(seen.size() == 10000);
}

TEST_CASE("sizes below 1 are refused") {
  CHECK_THROWS_AS(Sampler(0, 1), evenstep::UsageError);
  CHECK_THROWS_AS(Sampler(-5, 1), evenstep::UsageError);
}
