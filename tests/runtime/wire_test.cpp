// Gradients that travel as bf16, and gradients that come as means.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "evenstep/in_process.h"
#include "evenstep/session.h"
#include "runtime/elementwise.h"

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

}  // namespace

TEST_CASE("bf16 rounds to nearest, ties to even, and keeps what is not finite") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(to_float(to_bf16(301)) == 300);
  CHECK(to_float(to_bf16(303)) == 304);
  CHECK(to_float(to_bf16(256)) == 256);
  CHECK(to_float(to_bf16(257)) == 256);  // a tie
  CHECK(to_float(to_bf16(259)) == 260);  // a tie
  CHECK(to_float(to_bf16(-1.0F / 3)) == -0.333984375F);
  CHECK(to_float(to_bf16(3.4e38F)) == infinity);
  CHECK(to_float(to_bf16(-infinity)) == -infinity);
  CHECK(std::isnan(to_float(to_bf16(std::nanf("")))));
  CHECK(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001U)))));
  for (float value : random_values(10000, 1))
    CHECK(std::abs(to_float(to_bf16(value)) - value) <= std::abs(value) / 256);
}

TEST_CASE("compressing and expanding in place is rounding") {
  for (std::size_t count : {0, 1, 2, 1023, 1024, 1025, 5000}) {
    std::vector<float> values = random_values(count, 2);
    std::vector<float> rounded = values;
    for (float& value : rounded) value = to_float(to_bf16(value));
    const auto small = compress(values);
    CHECK(small.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      Bf16 value;
      std::memcpy(&value, reinterpret_cast<const char*>(values.data()) + 2 * i, 2);
      CHECK(to_float(value) == rounded[i]);
    }
    expand(values);
    CHECK(values == rounded);
  }
}

TEST_CASE("a bf16 wire's error is within its bound, and the tail is exact") {
  for (int ranks : {1, 2, 3, 5, 8})
    for (const char* overlap : {"off", "tests"}) {
      CAPTURE(ranks);
      CAPTURE(overlap);
      const double exact = relative_error(average(ranks, "f32", overlap, 5003));
      const double bf16 = relative_error(average(ranks, "bf16", overlap, 5003));
      MESSAGE(ranks << " ranks: relative error of f32 " << exact << ", of bf16 " << bf16);
      CHECK(exact < 1e-6);
      CHECK(bf16 > 1e-4);
      CHECK(bf16 < ranks / 512.0);
    }
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
