// Buckets, and sums that run while backward computes: ranks as threads, clocks that the tests set.
#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "evenstep/in_process.h"
#include "evenstep/session.h"
#include "runtime/buckets.h"

using namespace evenstep;

namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t layers = 4;
constexpr std::int64_t layer_size = 1000;
constexpr std::int64_t layer_ns = 10 * ms;

SessionOptions overlapped(InProcessWorld& world, int rank, const char* overlap = "tests") {
  SessionOptions options;
  options.global_batch = 60;
  options.gradients = layers * layer_size;
  options.balance = "off";
  options.overlap = overlap;
  for (std::int64_t layer = 1; layer <= layers; ++layer)
    options.layer_ends.push_back(layer * layer_size);
  options.bucket_bytes = layer_size * 4;  // a bucket a layer
  options.clock = &world.clock(rank);
  return options;
}

float gradient(int rank, std::int64_t i) {
  return static_cast<float>(rank + 1) * static_cast<float>(i % 77);
}

// Load, forward and backward of a step, layer by layer; `delay_ns` in one phase.
StepResult run_step(Session& session, ManualClock& clock, int rank, Phase delayed = Phase::load,
                    std::int64_t delay_ns = 0) {
  const Share share = session.begin_step();
  const auto work = [&](Phase phase, std::int64_t ns) {
    clock.advance_ns(ns + (phase == delayed ? std::exchange(delay_ns, 0) : 0));
    session.lap(phase);
  };
  work(Phase::load, 1 * ms);
  work(Phase::forward, 5 * ms);
  if (share.count == 0) std::ranges::fill(session.gradients(), 0.0F);
  for (std::int64_t layer = 0; share.count > 0 && layer < layers; ++layer) {
    work(Phase::backward, layer_ns);
    for (std::int64_t i = layer * layer_size; i < (layer + 1) * layer_size; ++i)
      session.gradients()[static_cast<std::size_t>(i)] = gradient(rank, i);
    session.gradients_ready(layer * layer_size, layer_size);
  }
  const StepResult result = session.end_step({.weight = static_cast<double>(share.count)});
  work(Phase::update, 2 * ms);
  return result;
}

std::int64_t phase_ns(const Session& session, Phase phase) {
  return session.phase_ns()[static_cast<std::size_t>(phase)];
}

}  // namespace

TEST_CASE("buckets close at layers' ends and cover all") {
  using Ends = std::vector<std::size_t>;
  const std::vector<std::int64_t> cnn = {1290, 402826, 421322, 421642};
  CHECK(cut_buckets(cnn, 421642, 50, 262144) == Ends{402826, 421692});
  CHECK(cut_buckets(cnn, 421642, 50, 200000) == Ends{201413, 402826, 421692});
  CHECK(cut_buckets(cnn, 421642, 50, 1 << 20) == Ends{421692});
  CHECK(cut_buckets(cnn, 421642, 50, 150000) == Ends{201413, 402826, 421692});
  CHECK(cut_buckets(cnn, 421642, 50, 18496).back() == 421692);
  CHECK(cut_buckets(cnn, 421642, 50, 18496).end()[-2] == 421322);
  CHECK(cut_buckets({}, 10, 2, 4) == Ends{5, 12});
  CHECK(cut_buckets({}, 10, 2, 0) == Ends{1, 2, 3, 4, 5, 6, 7, 8, 9, 12});
  CHECK(cut_buckets({}, 0, 2, 4) == Ends{2});
}

TEST_CASE("random buckets are as large as they must be") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> ends(1 + random() % 20);
    for (std::size_t i = 0; i < ends.size(); ++i)
      ends[i] = (i > 0 ? ends[i - 1] : 0) + random() % 5000;
    const auto gradients = static_cast<std::size_t>(ends.back());
    const std::size_t least = 1 + random() % 3000;
    const auto buckets = cut_buckets(ends, gradients, 7, least);
    CHECK(buckets.back() == gradients + 7);
    for (std::size_t b = 0; b + 1 < buckets.size(); ++b) {
      const std::size_t size = buckets[b] - (b > 0 ? buckets[b - 1] : 0);
      CHECK(size >= least);
    }
  }
}

TEST_CASE("an overlapped step gives the bits of a blocking one, shares of 0 included") {
  for (int ranks : {1, 2, 3, 5}) {
    for (std::int64_t batch : {std::int64_t{60}, std::int64_t{1}}) {
      std::vector<std::vector<float>> averages;
      for (const char* overlap : {"off", "tests"}) {
        InProcessWorld world(ranks);
        std::vector<float> average;
        world.run([&](int rank) {
          const auto communicator = world.communicator(rank);
          SessionOptions options = overlapped(world, rank, overlap);
          options.global_batch = batch;
          Session session(*communicator, options);
          for (int k = 0; k < 5; ++k) run_step(session, world.clock(rank), rank);
          const std::int64_t buckets = std::string(overlap) == "off" ? 1 : layers;
          CHECK(session.buckets() == buckets);
          CHECK(communicator->sum_calls() == 5 * buckets);
          if (rank == 0) average.assign(session.gradients().begin(), session.gradients().end());
        });
        averages.push_back(average);
      }
      CHECK(averages[0] == averages[1]);
      CHECK(averages[0][5] != 0);
    }
  }
}

TEST_CASE("what the link carries during backward is hidden, and is nobody's own time") {
  for (const char* overlap : {"off", "tests"}) {
    CAPTURE(overlap);
    InProcessWorld world(3);
    world.set_link(2000);  // a layer: 8 ms, less than its backward
    world.run([&](int rank) {
      const auto communicator = world.communicator(rank);
      Session session(*communicator, overlapped(world, rank, overlap));
      for (int k = 0; k < 3; ++k) run_step(session, world.clock(rank), rank);
      CHECK(session.own_ns() == (2 + 1 + 5 + layers * 10) * ms);
      // The last layer's sum, and the tail's, are all that is left.
      const std::int64_t visible = std::string(overlap) == "off" ? layers : 1;
      CHECK(session.last_wait_ns() / ms == visible * 8);
    });
  }
}

TEST_CASE("a delay belongs to its rank and phase, and is waiting on all others") {
  constexpr int ranks = 3;
  constexpr std::int64_t delay = 100 * ms;
  for (const char* overlap : {"off", "tests"})
    for (int slow = 0; slow < ranks; ++slow)
      for (Phase delayed : {Phase::load, Phase::forward, Phase::backward}) {
        CAPTURE(overlap);
        CAPTURE(slow);
        CAPTURE(name(delayed));
        InProcessWorld world(ranks);
        world.set_link(2000);
        world.run([&](int rank) {
          const auto communicator = world.communicator(rank);
          Session session(*communicator, overlapped(world, rank, overlap));
          std::int64_t phases_before[phases] = {};
          run_step(session, world.clock(rank), rank);
          run_step(session, world.clock(rank), rank);
          std::ranges::copy(session.phase_ns(), phases_before);
          const std::int64_t wait_before = session.last_wait_ns();
          run_step(session, world.clock(rank), rank, delayed, rank == slow ? delay : 0);
          for (Phase phase : {Phase::load, Phase::forward, Phase::backward, Phase::update}) {
            const bool here = rank == slow && phase == delayed;
            CHECK(phase_ns(session, phase) ==
                  phases_before[static_cast<std::size_t>(phase)] + (here ? delay : 0));
          }
          if (rank != slow) CHECK(session.last_wait_ns() >= wait_before + delay / 2);
          if (rank == slow) CHECK(session.last_wait_ns() <= wait_before);
          for (int r = 0; r < ranks; ++r)
            CHECK(session.reports()[static_cast<std::size_t>(r)].own_ns ==
                  session.reports()[static_cast<std::size_t>((slow + 1) % ranks)].own_ns +
                      (r == slow ? delay : 0));
        });
      }
}

TEST_CASE("auto overlaps where the link is slow, and does not where nothing is gained") {
  for (int ranks : {1, 2, 3, 5})
    for (std::int64_t ns_per_byte : {0, 2000}) {
      CAPTURE(ranks);
      CAPTURE(ns_per_byte);
      InProcessWorld world(ranks);
      world.set_link(ns_per_byte);
      world.run([&](int rank) {
        const auto communicator = world.communicator(rank);
        SessionOptions options = overlapped(world, rank, "auto");
        options.backward_ways = 2;
        Session session(*communicator, options);
        CHECK(session.overlap() == Overlap::off);
        CHECK(session.overlap_settled() == (ranks == 1));
        int steps = 0;
        // The second way to run backward takes longer.
        for (; steps < 100 && !session.overlap_settled(); ++steps) {
          if (session.backward_way() == 1) world.clock(rank).advance_ns(10 * ms);
          run_step(session, world.clock(rank), rank);
        }
        CHECK(session.overlap_settled());
        CHECK(steps < 40);
        const bool pays = ranks > 1 && ns_per_byte > 0;
        CHECK(session.overlap() == (pays ? Overlap::tests : Overlap::off));
        CHECK(session.buckets() == (pays ? layers : 1));
        CHECK(session.backward_way() == 0);
        CHECK((session.overlap_ratio() < 0.8) == pays);
      });
    }
}

TEST_CASE("layers that do not fit, and unknown overlaps, are refused") {
  InProcessWorld world(2);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    const auto refused = [&](auto change, const char* text) {
      SessionOptions options = overlapped(world, rank);
      change(options);
      CHECK_THROWS_WITH_AS(Session(*communicator, options), doctest::Contains(text), AgreedError);
    };
    refused([](auto& o) { o.layer_ends = {1000, 500, 4000}; }, "must ascend");
    refused([](auto& o) { o.layer_ends = {1000, 3999}; }, "from 1000 to 3999");
    refused([](auto& o) { o.overlap = "thread"; }, "from one thread only; take tests");
    refused([](auto& o) { o.wire = "fp16"; }, "unknown wire 'fp16'; choose one of f32, bf16, f16");
    refused([](auto& o) { o.overlap = "much"; }, "unknown overlap 'much'");
    refused([](auto& o) { o.backward_ways = 0; }, "ways to run backward is 0");
    refused([](auto& o) { o.bucket_bytes = -1; }, "size of buckets is -1 bytes");
    refused([&](auto& o) { o.bucket_bytes += rank; }, "the size of buckets 4001");
    refused([&](auto& o) { o.layer_ends[0] += rank; }, "the checksum of the layers' ends");
  });
}
