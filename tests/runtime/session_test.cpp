// Sessions of several ranks as threads, with clocks that the tests set.
#include "evenstep/session.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "evenstep/in_process.h"
#include "evenstep/sampler.h"
#include "evenstep/version.h"
#include "tests/runtime/forwarding_communicator.h"

using namespace evenstep;

namespace {

constexpr std::int64_t ms = 1'000'000;

SessionOptions options_for(InProcessWorld& world, int rank, std::int64_t batch,
                           const char* balance = "even") {
  SessionOptions options;
  options.global_batch = batch;
  options.gradients = 3;
  options.balance = balance;
  options.metrics = 1;
  options.clock = &world.clock(rank);
  return options;
}

// One step in which this rank computes for `own_ns`.
StepResult step(Session& session, ManualClock& clock, std::int64_t own_ns, const Share& share) {
  const auto count = static_cast<double>(share.count);
  std::ranges::fill(session.gradients(), static_cast<float>(count));
  clock.advance_ns(own_ns);
  return session.end_step({.weight = count, .loss = 2 * count, .metrics = {&count, 1}});
}

// Runs `steps` steps on `ranks` ranks; `cost(rank, step)` is the time of one sample. Returns the
// partitions by step, as rank 0 saw them.
template <typename Cost>
std::vector<std::vector<std::int64_t>> run_steps(int ranks, std::int64_t batch, int steps,
                                                 const char* balance, Cost cost, int lag = 0) {
  InProcessWorld world(ranks);
  std::vector<std::vector<std::int64_t>> partitions;
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    SessionOptions options = options_for(world, rank, batch, balance);
    options.lag = lag;
    Session session(*communicator, options);
    for (int k = 0; k < steps; ++k) {
      const Share share = session.begin_step();
      if (rank == 0)
        partitions.emplace_back(session.partition().begin(), session.partition().end());
      step(session, world.clock(rank), share.count * cost(rank, k), share);
    }
  });
  return partitions;
}

double imbalance(const std::vector<std::int64_t>& partition, const std::vector<double>& costs) {
  double longest = 0;
  double speed = 0;
  std::int64_t batch = 0;
  for (std::size_t r = 0; r < partition.size(); ++r) {
    longest = std::max(longest, static_cast<double>(partition[r]) * costs[r]);
    speed += 1 / costs[r];
    batch += partition[r];
  }
  return longest / (static_cast<double>(batch) / speed);
}

}  // namespace

TEST_CASE("sums stay sums where no average is asked for") {
  InProcessWorld world(3);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    SessionOptions options = options_for(world, rank, 30);
    options.average = false;
    Session session(*communicator, options);
    const StepResult result = step(session, world.clock(rank), ms, session.begin_step());
    CHECK(result.weight == 30);
    for (float gradient : session.gradients()) CHECK(gradient == 30);  // each rank gave its share
  });
}

TEST_CASE("the average is over all samples, whatever the shares") {
  for (int ranks : {1, 2, 3, 5}) {
    InProcessWorld world(ranks);
    world.run([&](int rank) {
      const auto communicator = world.communicator(rank);
      Session session(*communicator, options_for(world, rank, 17));
      for (std::int64_t batch : {17, 5, 1, 17}) {
        const Share share = session.begin_step(batch);
        CHECK(share.batch == batch);
        // Sample i has the gradient i, so the average is (batch - 1) / 2.
        float sum = 0;
        for (std::int64_t i = 0; i < share.count; ++i) sum += static_cast<float>(share.offset + i);
        std::ranges::fill(session.gradients(), sum);
        const double correct = 1;
        const auto result = session.end_step({static_cast<double>(share.count),
                                              3.0 * static_cast<double>(share.count),
                                              {&correct, 1}});
        CHECK(session.gradients()[2] == doctest::Approx((static_cast<double>(batch) - 1) / 2));
        CHECK(result.weight == static_cast<double>(batch));
        CHECK(result.loss == doctest::Approx(3));
        CHECK(result.metrics[0] == ranks);
        CHECK_FALSE(result.skipped);
      }
      CHECK(communicator->sum_calls() == 4);
    });
  }
}

TEST_CASE("no weight at all is a skipped step with zero gradients") {
  InProcessWorld world(3);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    Session session(*communicator, options_for(world, rank, 9));
    const Share share = session.begin_step(0);
    CHECK(share.count == 0);
    std::ranges::fill(session.gradients(), std::numeric_limits<float>::quiet_NaN());
    const double none = 0;
    const auto result = session.end_step({0, 0, {&none, 1}});
    CHECK(result.skipped);
    CHECK(result.not_finite_rank == -1);
    CHECK(session.gradients()[0] == 0);
  });
}

TEST_CASE("shares cut the sampler's order: every sample once an epoch, B does not divide") {
  constexpr std::int64_t samples = 1003;
  constexpr std::int64_t batch = 64;
  InProcessWorld world(3);
  std::vector<std::vector<int>> seen(3, std::vector<int>(samples));
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    Session session(*communicator, options_for(world, rank, batch));
    const Sampler sampler(samples, 5);
    std::mt19937 noise(static_cast<unsigned>(rank));
    for (std::int64_t position = 0; position < samples; position += batch) {
      const Share share = session.begin_step(std::min(batch, samples - position));
      for (std::int64_t i = 0; i < share.count; ++i)
        ++seen[static_cast<std::size_t>(rank)]
              [static_cast<std::size_t>(sampler.at(0, position + share.offset + i))];
      // Speeds that change all the time, so that partitions do.
      step(session, world.clock(rank), share.count * ms * (1 + noise() % 4), share);
    }
  });
  for (std::size_t i = 0; i < samples; ++i) CHECK(seen[0][i] + seen[1][i] + seen[2][i] == 1);
}

TEST_CASE("own and wait times, split by phase, without what was off the clock") {
  InProcessWorld world(2);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    world.clock(rank).advance_ns(123456789);  // no clock starts at zero
    Session session(*communicator, options_for(world, rank, 8, "off"));
    ManualClock& clock = world.clock(rank);
    for (int k = 0; k < 3; ++k) {
      const Share share = session.begin_step();
      clock.advance_ns(2 * ms);
      session.lap(Phase::load);
      clock.advance_ns(3 * ms);
      session.lap(Phase::forward);
      session.pause();
      clock.advance_ns(1000 * ms * (rank + 1));
      session.resume();
      clock.advance_ns(rank == 0 ? 5 * ms : 1005 * ms);
      session.lap(Phase::backward);
      const double none = 0;
      session.end_step({static_cast<double>(share.count), 0, {&none, 1}});
      CHECK(session.phase_ns()[0] == 2 * ms);
      CHECK(session.phase_ns()[1] == 3 * ms);
      CHECK(session.phase_ns()[2] == (rank == 0 ? 5 * ms : 1005 * ms));
      CHECK(session.phase_ns()[3] == (k > 0 ? 7 * ms : 0));
      const std::int64_t update = k > 0 ? 7 * ms : 0;
      CHECK(session.reports()[0].own_ns == 10 * ms + update);
      CHECK(session.reports()[1].own_ns == 1010 * ms + update);
      CHECK(session.own_ns() == session.reports()[static_cast<std::size_t>(rank)].own_ns);
      CHECK(session.last_wait_ns() == (rank == 0 ? 2000 * ms : 0));
      CHECK(session.reports()[0].wait_ns == (k > 0 ? 2000 * ms : 0));
      clock.advance_ns(7 * ms);
      session.lap(Phase::update);
    }
  });
}

TEST_CASE("equal ranks with 5 % noise: nothing changes for 1,000 steps") {
  for (int ranks : {2, 4, 5}) {
    std::vector<std::mt19937> random;
    for (int r = 0; r < ranks; ++r) random.emplace_back(static_cast<unsigned>(1000 * ranks + r));
    std::lognormal_distribution<double> noise(-0.05 * 0.05 / 2, 0.05);
    const auto partitions = run_steps(ranks, 32 * ranks, 1000, "even", [&](int rank, int) {
      return static_cast<std::int64_t>(
          1e6 * std::lognormal_distribution<double>(noise)(random[static_cast<std::size_t>(rank)]));
    });
    for (const auto& partition : partitions) CHECK(partition == partitions[0]);
  }
}

TEST_CASE("a rank that halves its speed is balanced within 2 steps of its news") {
  constexpr int ranks = 4;
  constexpr int change = 50;
  std::vector<std::mt19937> random;
  for (unsigned r = 0; r < ranks; ++r) random.emplace_back(r);
  const auto partitions = run_steps(ranks, 512, 100, "even", [&](int rank, int k) {
    std::lognormal_distribution<double> noise(0, 0.02);
    return static_cast<std::int64_t>((rank == 2 && k >= change ? 2e6 : 1e6) *
                                     noise(random[static_cast<std::size_t>(rank)]));
  });
  // Step 50 is the first slow one; its records are news from then on; step 52 must be balanced.
  const std::vector<double> costs = {1, 1, 2, 1};
  CHECK(imbalance(partitions[change], costs) > 1.5);
  for (int k = change + 2; k < 100; ++k)
    CHECK(imbalance(partitions[static_cast<std::size_t>(k)], costs) < 1.05);
}

TEST_CASE("with a lag of 1, news of a step steer the step after the next") {
  const auto slow_from_50 = [](int rank, int k) { return (rank == 2 && k >= 50 ? 2 : 1) * ms; };
  const auto at_once = run_steps(4, 512, 100, "proportional", slow_from_50);
  const auto late = run_steps(4, 512, 100, "proportional", slow_from_50, 1);
  const auto first_move = [](const auto& partitions) {
    for (std::size_t k = 1; k < partitions.size(); ++k)
      if (partitions[k] != partitions[0]) return k;
    return partitions.size();
  };
  REQUIRE(first_move(at_once) < 98);
  CHECK(first_move(late) == first_move(at_once) + 1);
  CHECK(late[first_move(late)] == at_once[first_move(at_once)]);
  InProcessWorld world(1);
  const auto communicator = world.communicator(0);
  SessionOptions options = options_for(world, 0, 9);
  options.lag = 2;
  CHECK_THROWS_WITH_AS(Session(*communicator, options), "the lag is 2, it must be 0 or 1",
                       AgreedError);
}

TEST_CASE("off never moves, static moves once, by its benchmark") {
  const auto slow = [](int rank, int) { return rank == 0 ? 3 * ms : ms; };
  for (const auto& partition : run_steps(3, 90, 30, "off", slow))
    CHECK(partition == std::vector<std::int64_t>{30, 30, 30});
  InProcessWorld world(3);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    SessionOptions options = options_for(world, rank, 70, "static");
    options.forecast.per_sample_ps = 1000 * slow(rank, 0);
    const Session session(*communicator, options);
    CHECK(std::ranges::equal(session.partition(), std::vector<std::int64_t>{10, 30, 30}));
  });
}

TEST_CASE("fewer samples than ranks") {
  const auto partitions =
      run_steps(5, 3, 40, "even", [](int rank, int) { return ms * (1 + rank % 2); });
  for (const auto& partition : partitions)
    CHECK(std::accumulate(partition.begin(), partition.end(), std::int64_t{0}) == 3);
}

TEST_CASE("ranks that differ are named") {
  const char* tail = "auto";
  const auto message = [&](auto change) {
    InProcessWorld world(3);
    std::string text;
    try {
      world.run([&](int rank) {
        const auto communicator = world.communicator(rank);
        SessionOptions options = options_for(world, rank, 8);
        options.must_agree = {{"--lr", "0.05"}};
        options.tail = tail;
        std::vector<float> parameters(5000, 1);
        change(rank, options, parameters);
        Session session(*communicator, options);
        session.watch_parameters(parameters);
        for (int k = 0; k < 10; ++k) step(session, world.clock(rank), ms, session.begin_step());
      });
    } catch (const AgreedError& error) {
      text = error.what();
    }
    return text;
  };
  CHECK(message([](int, auto&, auto&) {}).empty());
  CHECK(message([](int rank, SessionOptions& options, auto&) {
          if (rank == 2) options.must_agree[0].second = "0.1";
        }) ==
        "rank 2 on localhost has --lr 0.1, rank 0 on localhost has --lr 0.05; start all ranks "
        "with the same program and options");
  CHECK(message([](int rank, SessionOptions& options, auto&) {
          if (rank == 1) options.global_batch = 9;
        }).find("the global batch 9") != std::string::npos);
  // One bit in one slice: found when the slice has its turn.
  const std::string differing = message([](int rank, auto&, std::vector<float>& parameters) {
    if (rank == 1) parameters[4321] = 1.0000001F;
  });
  CHECK(differing.find("parameters differ: rank 1 on localhost") != std::string::npos);
  // Its turn or not.
  tail = "rotating";
  for (int odd : {0, 1, 2})
    CHECK(message([&](int rank, auto&, std::vector<float>& parameters) {
            if (rank == odd) parameters[0] = 1.0000001F;
          }).find("parameters differ: rank " + std::to_string(odd) + " on") != std::string::npos);
  tail = "auto";
  CHECK(message([](int, SessionOptions& options, auto&) {
          options.most_share = 2;
        }).find("3 ranks can take at most 6 samples, the global batch is 8") != std::string::npos);
  CHECK(message([](int, SessionOptions& options, auto&) {
          options.global_batch = 0;
        }).find("the global batch is 0") != std::string::npos);
}

// Says that it was built from other sources.
class OtherBuild final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  std::vector<std::string> gather(const std::string& mine) override {
    std::string other = mine;
    if (const auto at = other.find(version()); at != std::string::npos)
      other.replace(at, std::string(version()).size(), "0.0.0");
    return ForwardingCommunicator::gather(other);
  }
};

TEST_CASE("a rank of another build is named") {
  for (int odd : {1, 2}) {
    InProcessWorld world(3);
    std::string text;
    try {
      world.run([&](int rank) {
        std::unique_ptr<Communicator> communicator = world.communicator(rank);
        if (rank == odd) communicator = std::make_unique<OtherBuild>(std::move(communicator));
        const Session session(*communicator, options_for(world, rank, 8));
      });
    } catch (const AgreedError& error) {
      text = error.what();
      CHECK(error.exit_code() == 2);
    }
    CHECK(text.starts_with("rank " + std::to_string(odd) +
                           " on localhost has the version of evenstep 0.0.0, rank 0 on localhost "
                           "has the version of evenstep " +
                           version()));
  }
}

TEST_CASE("a rank with another partition is named at the next step") {
  InProcessWorld world(3);
  std::string text;
  try {
    world.run([&](int rank) {
      const auto communicator = world.communicator(rank);
      Session session(*communicator, options_for(world, rank, 8));
      for (int k = 0; k < 5; ++k)
        step(session, world.clock(rank), ms, session.begin_step(rank == 1 && k == 3 ? 5 : 8));
    });
  } catch (const AgreedError& error) {
    text = error.what();
  }
  CHECK(text.starts_with("step 3: partitions differ: rank 1 on localhost"));
}

TEST_CASE("a loss that is not finite is reported with its rank") {
  InProcessWorld world(3);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    Session session(*communicator, options_for(world, rank, 9));
    const Share share = session.begin_step();
    const double none = 0;
    const double loss = rank == 1 ? std::nan("") : 1;
    const auto result = session.end_step({static_cast<double>(share.count), loss, {&none, 1}});
    CHECK(result.not_finite_rank == 1);
  });
}

TEST_CASE("a batch above the global batch is refused") {
  InProcessWorld world(1);
  const auto communicator = world.communicator(0);
  Session session(*communicator, options_for(world, 0, 9));
  CHECK_THROWS_AS(session.begin_step(10), UsageError);
  CHECK_THROWS_AS(session.begin_step(-1), UsageError);
}

TEST_CASE("what a rank sees reaches all others, and stands until it sees anew") {
  InProcessWorld world(3);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    Session session(*communicator, options_for(world, rank, 9));
    for (int k = 0; k < 4; ++k) {
      if (k == 1) session.see(0.25 * (rank + 1), 1024);
      if (k == 3) session.see(-1, std::nan(""));
      step(session, world.clock(rank), ms, session.begin_step());
      for (int r = 0; r < 3; ++r) {
        const double seen = k == 0 || k == 3 ? 0 : 0.25 * (r + 1);
        CHECK(session.reports()[static_cast<std::size_t>(r)].cpu_cores == seen);
      }
    }
  });
}
