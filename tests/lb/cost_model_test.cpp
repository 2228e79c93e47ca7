#include "lb/cost_model.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

using News = CostModel::News;

// Feeds a model with steps of 32 samples, of `ms` a sample.
struct Feed {
  CostModel model;
  News operator()(double ms, Samples share = 32) {
    return model.observe(static_cast<Nanoseconds>(1e6 * ms * static_cast<double>(share)),
                         SizeTable{}.units(share));
  }
  double ms() const { return static_cast<double>(model.cost().per_sample_ps) * 1e-9; }
};

Feed settled(double ms) {
  Feed feed;
  for (int i = 0; i < 40; ++i) feed(ms);
  return feed;
}

TEST_CASE("nothing is known before the first step") {
  CHECK(Feed{}.model.observations() == 0);
  CHECK(Feed{}.ms() == 0);
}

TEST_CASE("the estimate converges under noise, and knows how well") {
  for (const double sigma : {0.0, 0.01, 0.03, 0.05, 0.10}) {
    INFO("noise ", sigma);
    double squares = 0;
    double foreseen = 0;
    constexpr int runs = 400;
    for (int seed = 1; seed <= runs; ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      Feed feed;
      for (int i = 0; i < 60; ++i) feed(2 * random.noise(sigma));
      squares += (feed.ms() / 2 - 1) * (feed.ms() / 2 - 1) / runs;
      foreseen += feed.model.relative_error() / runs;
    }
    CHECK(std::sqrt(squares) <= 0.5 * sigma + 1e-6);
    CHECK(foreseen >= 0.6 * std::sqrt(squares));
    CHECK(foreseen <= 0.5 * sigma + 0.005);
  }
}

TEST_CASE("a lone spike is dropped, up or down") {
  for (const double spike : {0.2, 1.5, 5.0, 1000.0}) {
    Feed feed = settled(2);
    CHECK(feed(2 * spike) == News::surprise);
    CHECK(feed.ms() == doctest::Approx(2));
    CHECK(feed(2) == News::none);
    CHECK(feed.ms() == doctest::Approx(2));
  }
}

TEST_CASE("surprises in opposite directions make no change") {
  Feed feed = settled(2);
  CHECK(feed(4) == News::surprise);
  CHECK(feed(1) == News::surprise);
  CHECK(feed(4) == News::surprise);
  CHECK(feed.ms() == doctest::Approx(2));
}

TEST_CASE("a lasting change is adopted at its second reading") {
  for (const double factor : {0.1, 0.5, 0.8, 1.3, 2.0, 20.0}) {
    INFO("factor ", factor);
    Feed feed = settled(2);
    CHECK(feed(2 * factor) == News::surprise);
    CHECK(feed(2 * factor) == News::changed);
    CHECK(feed.ms() == doctest::Approx(2 * factor));
    CHECK(feed(2 * factor) == News::none);
  }
}

TEST_CASE("a change soon undone is believed later the next time, until the rank is calm again") {
  Feed feed = settled(2);
  const auto pair = [&](double ms) {
    feed(ms);
    return feed(ms);
  };
  CHECK(pair(4) == News::changed);
  CHECK(pair(2) == News::changed);
  for (int i = 0; i < 30; ++i) feed(2);
  CHECK(pair(4) == News::surprise);
  CHECK(pair(4) == News::changed);
  for (int i = 0; i < 30; ++i) feed(4);
  for (int i = 0; i < 300; ++i) feed(4);
  CHECK(pair(8) == News::changed);
}

TEST_CASE("a slow drift is followed closely") {
  for (const double a_step : {0.99, 1.002, 1.01, 1.02}) {
    Feed feed = settled(2);
    double ms = 2;
    for (int i = 0; i < 60; ++i) feed(ms *= a_step);
    INFO("by a factor of ", a_step, " a step");
    CHECK(std::abs(feed.ms() / ms - 1) <= 5 * std::abs(a_step - 1) + 1e-3);
  }
}

TEST_CASE("another share is another cost a sample: the old one is soon forgotten") {
  Feed feed = settled(2);
  for (int i = 0; i < 6; ++i) feed(2.16, 24);
  CHECK(feed.ms() == doctest::Approx(2.16).epsilon(0.02));
}

TEST_CASE("costs beyond all bounds stay in range") {
  CostModel model;
  model.observe(largest_field, 1);
  CHECK(model.cost().per_sample_ps == largest_field);
  model.observe(1, SizeTable{}.units(largest_field));
  model.observe(1, SizeTable{}.units(largest_field));
  CHECK(model.cost().per_sample_ps >= 0);
}

}  // namespace
}  // namespace evenstep::lb
