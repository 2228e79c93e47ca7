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
  Surprises surprises{16};
  News operator()(double ms, Samples share = 32) {
    return total(ms * static_cast<double>(share), share);
  }
  News total(double ms, Samples share) {
    return model.observe(static_cast<Nanoseconds>(1e6 * ms), SizeTable{}.units(share), surprises);
  }
  double ms() const { return static_cast<double>(model.cost(surprises).per_sample_ps) * 1e-9; }
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

TEST_CASE("a lone spike is forgotten, up or down") {
  for (const double spike : {0.2, 1.5, 5.0, 1000.0}) {
    Feed feed = settled(2);
    CHECK(feed(2 * spike) == (spike > 1 ? News::seems_slower : News::seems_faster));
    CHECK(feed(2) == News::none);
    CHECK(feed.ms() == doctest::Approx(2));
  }
}

TEST_CASE("a rank that seems slower is sized so at once, unless surprises tend to pass") {
  Feed feed = settled(2);
  feed(6);
  CHECK(feed.ms() == doctest::Approx(6));
  for (int i = 0; i < 40; ++i) {
    feed(2);
    feed(2);
    feed(6);
  }
  CHECK(feed.ms() == doctest::Approx(2));
  // They last again: before long they are believed again.
  for (int i = 0; i < 6; ++i)
    for (const double ms : {6.0, 2.0})
      for (int k = 0; k < 60; ++k) feed(ms);
  feed(6);
  CHECK(feed.ms() == doctest::Approx(6));
}

TEST_CASE("a rank that seems faster is not believed at once") {
  Feed feed = settled(2);
  feed(0.5);
  CHECK(feed.ms() == doctest::Approx(2));
}

TEST_CASE("surprises in opposite directions make no change") {
  Feed feed = settled(2);
  CHECK(feed(4) == News::seems_slower);
  CHECK(feed(1) == News::seems_faster);
  CHECK(feed(4) == News::seems_slower);
  CHECK(feed(2) == News::none);
  CHECK(feed.ms() == doctest::Approx(2));
}

TEST_CASE("a lasting change is adopted at its second reading") {
  for (const double factor : {0.1, 0.5, 0.8, 1.3, 2.0, 20.0}) {
    INFO("factor ", factor);
    Feed feed = settled(2);
    CHECK(feed(2 * factor) == (factor > 1 ? News::seems_slower : News::seems_faster));
    CHECK(feed(2 * factor) == (factor > 1 ? News::is_slower : News::is_faster));
    CHECK(feed.ms() == doctest::Approx(2 * factor));
    CHECK(feed(2 * factor) == News::none);
  }
}

TEST_CASE("a recovery is believed later where ranks fall back") {
  Feed feed = settled(4);
  const auto run = [&](double ms, int steps) {
    int believed_after = 0;
    for (int i = 1; i <= steps; ++i)
      if (const News news = feed(ms); news == News::is_slower || news == News::is_faster)
        believed_after = i;
    return believed_after;
  };
  CHECK(run(2, 10) == 2);
  CHECK(run(4, 10) == 2);
  // Ten fast steps were no recovery: ten more are none either.
  CHECK(run(2, 10) == 0);
  CHECK(feed.ms() == doctest::Approx(4));
  CHECK(run(4, 10) == 0);
  // This one lasts.
  const int believed_after = run(2, 100);
  CHECK(believed_after > 10);
  CHECK(believed_after <= 20);
  CHECK(feed.ms() == doctest::Approx(2));
  // A fall is always believed at its second reading.
  CHECK(run(4, 10) == 2);
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

TEST_CASE("a fixed cost is told apart by a re-size") {
  Feed feed;
  for (int i = 0; i < 20; ++i) feed.total(20 + 32 * 2, 32);
  for (const Samples share : {16, 8, 64, 24})
    feed.total(20 + 2 * static_cast<double>(share), share);
  const Cost cost = feed.model.cost(feed.surprises);
  CHECK(static_cast<double>(cost.fixed_ns) == doctest::Approx(20e6).epsilon(0.05));
  CHECK(feed.ms() == doctest::Approx(2).epsilon(0.02));
}

TEST_CASE("times that never scatter are no trouble") {
  Feed feed;
  for (int i = 0; i < 200000; ++i) feed(2);
  CHECK(feed.ms() == doctest::Approx(2));
  CHECK(feed(2.5) == News::seems_slower);
  CHECK(feed(2.5) == News::is_slower);
}

TEST_CASE("costs beyond all bounds stay in range") {
  CostModel model;
  Surprises surprises{16};
  model.observe(largest_field, 1, surprises);
  CHECK(model.cost(surprises).per_sample_ps == largest_field);
  for (int i = 0; i < 10; ++i) model.observe(1, SizeTable{}.units(largest_field), surprises);
  CHECK(model.cost(surprises).per_sample_ps >= 1);
  for (int i = 0; i < 10; ++i) model.observe(largest_field, 1, surprises);
  CHECK(model.cost(surprises).per_sample_ps == largest_field);
}

}  // namespace
}  // namespace evenstep::lb
