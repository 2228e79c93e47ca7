// The hot path: a steady step allocates nothing, also where the partition changes.
#include <doctest/doctest.h>

#include "evenstep/in_process.h"
#include "evenstep/session.h"
#include "tests/allocations.h"

using namespace evenstep;

void steady_steps_allocate_nothing(const char* overlap, const char* tail = "auto",
                                   const char* wire = "f32") {
  counting = false;
  allocations = 0;
  constexpr int ranks = 3;
  constexpr int warm_up = 3;
  InProcessWorld world(ranks);
  int resizes = 0;
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    SessionOptions options;
    options.global_batch = 96;
    options.gradients = 10000;
    options.overlap = overlap;
    options.wire = wire;
    options.bucket_bytes = 4096;
    options.clock = &world.clock(rank);
    options.tail = tail;
    Session session(*communicator, options);
    std::vector<float> parameters(10000);
    session.watch_parameters(parameters);
    for (int step = 0; step < 200; ++step) {
      if (step == warm_up) counting = true;
      const Share share = session.begin_step(step % 10 == 9 ? 50 : 96);
      const std::int64_t slow = step > 100 && rank == 1 ? 3 : 1 + rank;
      world.clock(rank).advance_ns(share.count * slow * 1'000'000);
      session.lap(Phase::backward);
      session.gradients_ready(0, share.count == 0 ? 0 : 10000);
      session.end_step({.weight = static_cast<double>(share.count), .loss = 1});
    }
    counting = false;
    if (rank == 0) resizes = session.resizes();
  });
  CHECK(resizes >= 2);
  CHECK(allocations == 0);
}

TEST_CASE("a steady step allocates nothing") { steady_steps_allocate_nothing("off"); }

TEST_CASE("nor does one that overlaps") { steady_steps_allocate_nothing("tests"); }

TEST_CASE("nor does one with a rotating tail") { steady_steps_allocate_nothing("off", "rotating"); }

TEST_CASE("nor one that measures ways to overlap, nor with bf16 on the wire") {
  steady_steps_allocate_nothing("auto");
  steady_steps_allocate_nothing("tests", "auto", "bf16");
}

TEST_CASE("the counter counts") {
  allocations = 0;
  counting = true;
  int* volatile number = new int(1);  // volatile: the compiler may leave out a pair that it sees
  delete number;
  counting = false;
  CHECK(allocations == 1);
}
