// Gradients that travel as bf16 or f16, and gradients that come as means.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "evenstep/in_process.h"
#include "evenstep/session.h"
#include "runtime/half_precision.h"
#include "runtime/wire_scale.h"

using namespace evenstep;

namespace {

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random) * std::exp2(normal(random) * 4);
  return values;
}

SessionOptions options_of(InProcessWorld& world, int rank, std::int64_t gradients) {
  SessionOptions options;
  options.global_batch = 301;
  options.gradients = gradients;
  options.balance = "off";
  options.metrics = 1;
  options.clock = &world.clock(rank);
  return options;
}

// The average of `ranks` random gradients, by the wire given, and by a sum in double.
struct Averages {
  std::vector<float> wire;
  std::vector<double> exact;
};
Averages average(int ranks, const char* wire, const char* overlap, std::size_t count) {
  InProcessWorld world(ranks);
  Averages averages{{}, std::vector<double>(count)};
  for (int rank = 0; rank < ranks; ++rank) {
    const auto mine = random_values(count, static_cast<unsigned>(rank));
    for (std::size_t i = 0; i < count; ++i) averages.exact[i] += mine[i] / 301.0;
  }
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    SessionOptions options = options_of(world, rank, static_cast<std::int64_t>(count));
    options.wire = wire;
    options.overlap = overlap;
    options.bucket_bytes = 4000;
    Session session(*communicator, options);
    const std::int64_t calls_before = communicator->sum_calls();
    const Share share = session.begin_step();
    const auto mine = random_values(count, static_cast<unsigned>(rank));
    std::ranges::copy(mine, session.gradients().begin());
    session.gradients_ready(0, static_cast<std::int64_t>(count));
    const auto samples = static_cast<double>(share.count);
    const StepResult result =
        session.end_step({.weight = samples, .loss = 0, .metrics = {&samples, 1}});
    CHECK(result.weight == 301);  // bf16 has no such number
    CHECK(result.metrics.size() == 1);
    CHECK(result.metrics[0] == 301);
    CHECK(communicator->sum_calls() - calls_before == session.buckets());
    if (rank == 0) averages.wire.assign(session.gradients().begin(), session.gradients().end());
  });
  return averages;
}

double relative_error(const Averages& averages) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < averages.exact.size(); ++i) {
    error += std::pow(averages.wire[i] - averages.exact[i], 2);
    norm += std::pow(averages.exact[i], 2);
  }
  return std::sqrt(error / norm);
}

// What `Half` is: digits behind the point, and the exponents of its normal numbers.
template <typename Half>
constexpr int digits = 0;
template <>
constexpr int digits<Bf16> = 7;
template <>
constexpr int digits<F16> = 10;
template <typename Half>
constexpr int top_exponent = (1 << (14 - digits<Half>)) - 1;

// By the definition of the formats; values of any number's bits.
template <typename Half>
float defined_value(unsigned bits) {
  const int exponent = static_cast<int>(bits & 0x7fff) >> digits<Half>;
  const auto fraction = static_cast<float>(bits & ((1U << digits<Half>)-1));
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const float one = std::ldexp(1.0F, digits<Half>);
  if (exponent == 2 * top_exponent<Half> + 1)
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : std::nanf("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - top_exponent<Half> - digits<Half>);
  return sign * std::ldexp(one + fraction, exponent - top_exponent<Half> - digits<Half>);
}

template <typename Half>
unsigned bits_of(Half half) {
  return static_cast<unsigned>(half);
}

}  // namespace

TEST_CASE_TEMPLATE("all values widen to what they are, and come back", Half, Bf16, F16) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(static_cast<Half>(bits));
    const float expected = defined_value<Half>(bits);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(to_float(round_to<Half>(value))));
      continue;
    }
    REQUIRE(std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(expected));
    REQUIRE(bits_of(round_to<Half>(value)) == bits);
  }
}

TEST_CASE_TEMPLATE("between two values the nearest is taken, and the even one of a tie", Half, Bf16,
                   F16) {
  const unsigned infinite = bits_of(round_to<Half>(std::numeric_limits<float>::infinity()));
  for (unsigned bits = 0; bits < infinite; ++bits)
    for (float sign : {1.0F, -1.0F}) {
      const unsigned minus = sign < 0 ? 0x8000 : 0;
      const float low = defined_value<Half>(bits);
      // Beyond the largest, infinity stands where the next number would be.
      const double high = bits + 1 < infinite ? defined_value<Half>(bits + 1)
                                              : std::ldexp(1.0, top_exponent<Half> + 1);
      const auto tie = static_cast<float>((low + high) / 2);
      REQUIRE(static_cast<double>(tie) * 2 == low + high);
      REQUIRE(bits_of(round_to<Half>(sign * tie)) == (minus | (bits + (bits & 1))));
      REQUIRE(bits_of(round_to<Half>(sign * std::nextafter(tie, 0.0F))) == (minus | bits));
      REQUIRE(bits_of(round_to<Half>(sign * std::nextafter(tie, HUGE_VALF))) ==
              (minus | (bits + 1)));
    }
}

TEST_CASE("roundings known by hand") {
  CHECK(to_float(round_to<Bf16>(301)) == 300);
  CHECK(to_float(round_to<Bf16>(259)) == 260);  // a tie
  CHECK(to_float(round_to<F16>(301)) == 301);
  CHECK(to_float(round_to<F16>(2051)) == 2052);  // a tie
  CHECK(to_float(round_to<F16>(65519)) == 65504);
  CHECK(std::isinf(to_float(round_to<F16>(65520))));
  CHECK(to_float(round_to<F16>(0x1p-25F)) == 0);  // a tie
  CHECK(to_float(round_to<F16>(0x1.8p-25F)) == 0x1p-24F);
  CHECK(std::isinf(to_float(round_to<Bf16>(3.4e38F))));
}

// Of any length: instructions for eight values at once, where the processor has them, take the
// first of them and plain code the rest.
TEST_CASE_TEMPLATE("many values are rounded, widened and added as one is", Half, Bf16, F16) {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (std::size_t count : {0, 1, 2, 7, 8, 9, 1023, 1024, 1025, 5000, 70000}) {
    std::vector<float> values(count);
    for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    std::vector<Half> ones(count);
    for (std::size_t i = 0; i < count; ++i) ones[i] = round_to<Half>(0.25F * values[i]);
    const std::span<Half> small = compress<Half>(values, 0.25F);
    REQUIRE(small.size() == count);
    std::vector<Half> many(count);
    std::memcpy(many.data(), small.data(), small.size_bytes());
    REQUIRE(many == ones);

    expand<Half>(values, 4);
    for (std::size_t i = 0; i < count; ++i)
      REQUIRE(std::bit_cast<std::uint32_t>(values[i]) ==
              std::bit_cast<std::uint32_t>(4 * to_float(ones[i])));

    std::vector<Half> sums(count);
    for (Half& sum : sums) sum = static_cast<Half>(random() & 0xffff);
    std::vector<Half> expected(count);
    for (std::size_t i = 0; i < count; ++i)
      expected[i] = round_to<Half>(to_float(ones[i]) + to_float(sums[i]));
    add<Half>(ones, sums);
    for (std::size_t i = 0; i < count; ++i)
      if (!std::isnan(to_float(expected[i])))
        REQUIRE(sums[i] == expected[i]);
      else
        REQUIRE(std::isnan(to_float(sums[i])));
  }
}

TEST_CASE_TEMPLATE("the largest magnitude is found wherever it is", Half, Bf16, F16) {
  for (std::size_t at : {0, 5, 1023, 1024, 2499}) {
    std::vector<float> values(2500, 0.5F);
    values[at] = -3;
    compress<Half>(values, 2);
    CHECK(expand<Half>(values, 0.5F) == 6);
    CHECK(values[at] == -3);
    values[at] = std::nanf("");
    compress<Half>(values, 2);
    CHECK(std::isinf(expand<Half>(values, 0.5F)));
  }
  std::vector<float> none;
  CHECK(expand<Half>(none, 1) == 0);
}

TEST_CASE("a 16-bit wire's error is within its bound, and the tail is exact") {
  for (int ranks : {1, 2, 3, 5, 8})
    for (const char* overlap : {"off", "tests"}) {
      CAPTURE(ranks);
      CAPTURE(overlap);
      const double exact = relative_error(average(ranks, "f32", overlap, 5003));
      const double bf16 = relative_error(average(ranks, "bf16", overlap, 5003));
      const double f16 = relative_error(average(ranks, "f16", overlap, 5003));
      MESSAGE(ranks << " ranks: relative error of f32 " << exact << ", of bf16 " << bf16
                    << ", of f16 " << f16);
      CHECK(exact < 1e-6);
      CHECK(bf16 > 1e-4);
      CHECK(bf16 < ranks / 512.0);
      CHECK(f16 > 1e-5);
      CHECK(f16 < ranks / 4096.0);
    }
}

TEST_CASE("the scale of f16 follows the sums") {
  WireScale scale(128);
  CHECK(scale.factor() == 1.0F / 128);
  CHECK(scale.fits(8));
  CHECK(scale.factor() == 1.0F / 64);  // up slowly
  CHECK(scale.fits(40000));
  CHECK(scale.factor() == 1.0F / 2048);  // down at once
  CHECK(scale.fits(0));
  CHECK(scale.factor() == 1.0F / 128);
  CHECK(scale.fits(0));
  CHECK(scale.factor() == 1.0F / 128);
  CHECK(!scale.fits(std::numeric_limits<float>::infinity()));
  CHECK(scale.factor() == 0x1p-23F);
  CHECK(scale.factor() * scale.inverse() == 1);
  // Made so small that nothing is left of ordinary sums: they come back.
  for (int step = 0; step < 3; ++step) CHECK(!scale.fits(std::numeric_limits<float>::infinity()));
  for (int step = 0; step < 4; ++step) CHECK(scale.fits(0));
  CHECK(scale.factor() == 1.0F / 128);
  for (int step = 0; step < 500; ++step) CHECK(scale.fits(0x1p-24F));
  CHECK(std::isfinite(scale.factor()));
  CHECK(scale.inverse() > 0);
}

namespace {

// A gradient of each step, alike on all ranks, f16 on the wire: which steps are skipped, and what
// the others average to, on rank 0.
struct Outcome {
  std::vector<bool> skipped = {};
  std::vector<float> averages = {};
};
Outcome train(const std::vector<float>& gradients) {
  constexpr int ranks = 3;
  InProcessWorld world(ranks);
  Outcome outcome;
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    SessionOptions options = options_of(world, rank, 5000);
    options.wire = "f16";
    options.overlap = "tests";
    options.bucket_bytes = 4000;
    Session session(*communicator, options);
    for (float gradient : gradients) {
      const Share share = session.begin_step();
      const auto samples = static_cast<float>(share.count);
      std::ranges::fill(session.gradients(), 1e-3F * samples);
      session.gradients()[4321] = gradient * samples;
      session.gradients_ready(0, 5000);
      const double metric = 0;
      const StepResult result = session.end_step({.weight = samples, .metrics = {&metric, 1}});
      CHECK(result.weight == 301);
      if (rank != 0) continue;
      outcome.skipped.push_back(result.skipped);
      outcome.averages.push_back(session.gradients()[4321]);
    }
  });
  return outcome;
}

}  // namespace

TEST_CASE("gradients too large for f16 cost a step, and fit in the next") {
  const Outcome outcome = train({1, 2, 1e8F, 1e8F, 1e8F, 1});
  CHECK(outcome.skipped == std::vector<bool>{false, false, true, false, false, false});
  const float expected[] = {1, 2, 0, 1e8F, 1e8F, 1};
  for (std::size_t i = 0; i < outcome.averages.size(); ++i)
    CHECK(outcome.averages[i] == doctest::Approx(expected[i]).epsilon(0.002));
}

TEST_CASE("growing gradients of any size fit; those that are not finite come through in the end") {
  std::vector<float> growing;
  for (float gradient = 1e-30F; gradient < 1e30F; gradient *= 30) growing.push_back(gradient);
  const Outcome grown = train(growing);
  CHECK(std::ranges::count(grown.skipped, true) == 0);
  CHECK(grown.averages.back() == doctest::Approx(growing.back()).epsilon(0.002));

  const Outcome infinite = train(std::vector<float>(20, std::numeric_limits<float>::infinity()));
  CHECK(infinite.skipped.front());
  CHECK(!infinite.skipped.back());
  CHECK(!std::isfinite(infinite.averages.back()));
}

TEST_CASE("means with their weights average like sums") {
  InProcessWorld world(3);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    SessionOptions options = options_of(world, rank, 100);
    options.overlap = "tests";
    options.bucket_bytes = 40;
    Session session(*communicator, options);
    session.begin_step();
    // Tokens: another number on each rank, and none on the last.
    const double tokens = rank == 2 ? 0 : 10.0 * (rank + 1);
    const std::vector<float> means(50, static_cast<float>(rank + 1));
    std::ranges::fill(session.gradients().subspan(50), static_cast<float>(rank + 4));
    session.put_means(0, means, tokens);
    session.put_means(50, session.gradients().subspan(50), tokens);
    const double metric = 0;
    const StepResult result = session.end_step({.weight = tokens, .metrics = {&metric, 1}});
    CHECK(result.weight == 30);
    CHECK(session.gradients()[0] == doctest::Approx((10.0 * 1 + 20.0 * 2) / 30));
    CHECK(session.gradients()[99] == doctest::Approx((10.0 * 4 + 20.0 * 5) / 30));
  });
}
