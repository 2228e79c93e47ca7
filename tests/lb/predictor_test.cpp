#include "lb/predictor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

TEST_CASE("last and ema, by hand") {
  const auto last = make_predictor("last");
  const auto ema = make_predictor("ema");
  CHECK(last->forecast() == 0);
  CHECK(ema->forecast() == 0);
  for (const double speed : {10.0, 20.0, 5.0}) {
    last->observe(speed);
    ema->observe(speed);
  }
  CHECK(last->forecast() == 5);
  CHECK(ema->forecast() == doctest::Approx(10.6));  // 10, 12, 12 - 0.2 x 7
}

TEST_CASE("all predictors know nothing at first, then the first speed, and keep to a steady one") {
  for (const std::string_view name : predictor_names()) {
    INFO(name);
    const auto predictor = make_predictor(name);
    CHECK(predictor->forecast() == 0);
    predictor->observe(300);
    CHECK(predictor->forecast() == doctest::Approx(300));
    for (int step = 0; step < 100'000; ++step) {
      predictor->see(2.5, 1000);
      predictor->observe(300);
    }
    predictor->see(2.5, 1000);
    CHECK(predictor->forecast() == doctest::Approx(300).epsilon(0.001));
  }
}

TEST_CASE("ar finds the recursion that made the series") {
  const auto ar = make_predictor("ar");
  double v1 = 100;
  double v2 = 120;
  // v = 40 + 1.2 v1 - 0.6 v2, with a little noise to learn from: around 100.
  Random random(3);
  for (int step = 0; step < 400; ++step) {
    const double v = 40 + 1.2 * v1 - 0.6 * v2 + random.real(-5, 5);
    if (step >= 200) CHECK(std::abs(ar->forecast() - v) < 8);
    ar->observe(v);
    v2 = v1;
    v1 = v;
  }
  CHECK(ar->forecast() == doctest::Approx(40 + 1.2 * v1 - 0.6 * v2).epsilon(0.02));
}

// Root mean square of the relative errors from `first` on. `speed_of` the CPU seen.
double error_of(std::string_view name, const std::function<double(double)>& speed_of) {
  Random random(7);
  const auto predictor = make_predictor(name);
  double sum = 0;
  double off = 0;
  for (int step = 0; step < 1500; ++step) {
    off = 0.9 * off + 0.11 * std::normal_distribution<double>()(random.engine());
    const double cpu = std::max(0.1, 1 + off);
    predictor->see(cpu * random.noise(0.03), 0);
    const double speed = speed_of(cpu) * random.noise(0.03);
    if (step >= 1000) sum += std::pow(predictor->forecast() / speed - 1, 2) / 500;
    predictor->observe(speed);
  }
  return std::sqrt(sum);
}

TEST_CASE("narx learns how speed follows the CPU seen, straight or bent") {
  const auto straight = [](double cpu) { return 500 * cpu; };
  const auto bent = [](double cpu) { return 500 * std::min(cpu, 1.0); };
  for (const std::string_view name : {"last", "ema", "ar"}) {
    INFO(name);
    CHECK(error_of("narx", straight) < 0.7 * error_of(name, straight));
    CHECK(error_of("narx", bent) < 0.85 * error_of(name, bent));
  }
  CHECK(error_of("narx", straight) < 0.08);
}

TEST_CASE("any speeds and availabilities: forecasts are finite and near the last speeds") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (const std::string_view name : predictor_names()) {
    INFO(name);
    for (int run = 0; run < 20; ++run) {
      const auto predictor = make_predictor(name);
      double least = 1e300;
      double most = 0;
      for (int step = 0; step < 500; ++step) {
        const double speed = 1e-3 * (1 + static_cast<double>(random.any_size(1'000'000'000'000)));
        least = std::min(least, speed);
        most = std::max(most, speed);
        predictor->observe(speed);
        predictor->see(static_cast<double>(random.any_size(1 << 24)),
                       static_cast<double>(random.any_size(1 << 24)));
        CHECK(predictor->forecast() >= 0.4999 * least);
        CHECK(predictor->forecast() <= 2.0001 * most);
      }
    }
  }
}

TEST_CASE("an unknown predictor is refused by name") {
  CHECK_THROWS_WITH_AS(make_predictor("NARX"),
                       "unknown predictor 'NARX'; choose one of last, ema, ar, narx",
                       std::invalid_argument);
}

}  // namespace
}  // namespace evenstep::lb
