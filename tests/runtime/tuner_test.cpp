#include "runtime/tuner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

using evenstep::Tuner;

namespace {

// Runs `steps` steps in which `seconds(step, way)` tells a step's time, told one step late.
template <typename Seconds>
Tuner run(std::size_t ways, int steps, Seconds seconds) {
  Tuner tuner(ways);
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    const double now = seconds(step, tuner.way());
    tuner.end_step(last);
    last = now;
  }
  return tuner;
}

}  // namespace

TEST_CASE("one way is settled at once") {
  CHECK(Tuner(1).settled());
  CHECK(run(1, 10, [](int, std::size_t) { return 1.0; }).way() == 0);
}

// Settles right after `measuring` steps on the fastest way; returns how often each was tried.
std::vector<int> trials_until_settled(std::size_t ways, std::size_t fastest, int measuring) {
  std::vector<int> trials(ways);
  const auto seconds = [&](int step, std::size_t way) {
    if (step >= 4 && step < measuring) ++trials[way];
    return way == fastest ? 0.9 : 1.0 + 0.01 * static_cast<double>(way);
  };
  CHECK_FALSE(run(ways, measuring, seconds).settled());
  trials.assign(ways, 0);
  const Tuner tuner = run(ways, measuring + 1, seconds);
  CHECK(tuner.settled());
  CHECK(tuner.way() == fastest);
  CHECK(tuner.ratio() == doctest::Approx(fastest == 0 ? 1 : 0.9));
  return trials;
}

TEST_CASE("every way is tried as often, and then the fastest is kept") {
  for (std::size_t ways : {2, 3, 4})
    for (std::size_t fastest = 0; fastest < ways; ++fastest)
      CHECK(trials_until_settled(ways, fastest, 4 + 9 * static_cast<int>(ways)) ==
            std::vector<int>(ways, 9));
}

TEST_CASE("of many ways, those that did best in a few trials are tried as often as few") {
  constexpr std::size_t ways = 11;
  for (std::size_t fastest = 0; fastest < ways; ++fastest) {
    const auto trials = trials_until_settled(ways, fastest, 4 + 3 * ways + 1 + 9 * 4);
    CHECK(trials[fastest] >= 12);
    CHECK(std::ranges::count(trials, 12) == 3);
    CHECK(std::ranges::count(trials, 3) == ways - 4);
  }
}

TEST_CASE("times drift, and the first steps are slow") {
  const auto seconds = [](int step, std::size_t way) {
    if (step < 4) return 10.0;
    return std::pow(0.97, step) * (way == 2 ? 0.93 : 1.0);
  };
  CHECK(run(3, 60, seconds).way() == 2);
}

TEST_CASE("a gain below one in a hundred, or within the noise, changes nothing") {
  CHECK(run(3, 60, [](int, std::size_t way) { return way == 1 ? 0.995 : 1.0; }).way() == 0);
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0, 0.05);
  int changes = 0;
  for (int job = 0; job < 1000; ++job)
    if (run(2, 60, [&](int, std::size_t) { return noise(random); }).way() != 0) ++changes;
  CHECK(changes < 40);
}

TEST_CASE("two bad steps do not hide a gain") {
  const auto seconds = [](int step, std::size_t way) {
    if (step == 8 || step == 13) return 5.0;
    return way == 1 ? 0.9 : 1.0;
  };
  CHECK(run(2, 60, seconds).way() == 1);
}
