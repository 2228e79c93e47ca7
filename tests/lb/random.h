// Random numbers for tests: a fresh seed each run, or EVENSTEP_TEST_SEED to repeat one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace evenstep::lb {

inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    if (const char* fixed = std::getenv("EVENSTEP_TEST_SEED"))
      return std::strtoull(fixed, nullptr, 0);
    return static_cast<unsigned long long>(std::random_device{}());
  }();
  return seed;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// A whole number from `least` to `most`.
  std::int64_t whole(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution(least, most)(engine_);
  }
  /// A whole number from 0 to `most`, its order of magnitude uniform; often an end or near a power
  /// of two.
  std::int64_t any_size(std::int64_t most) {
    const std::int64_t power = std::int64_t{1} << whole(0, 62);
    return std::min(most, chance(0.3) ? power - whole(0, 1) : whole(0, power));
  }
  bool chance(double probability) { return real(0, 1) < probability; }
  double real(double low, double high) {
    return std::uniform_real_distribution(low, high)(engine_);
  }
  /// Log-normal with mean 1.
  double noise(double sigma) {
    return sigma > 0 ? std::lognormal_distribution(-sigma * sigma / 2, sigma)(engine_) : 1;
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace evenstep::lb

/// Names the seed in every failure message of the test case it stands in.
#define EVENSTEP_INFO_SEED() INFO("EVENSTEP_TEST_SEED=", evenstep::lb::test_seed())
