// The hot path: a steady step allocates nothing and makes no system call outside the communicator,
// also where the partition changes.
#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "apps/common/system_calls.h"
#include "evenstep/in_process.h"
#include "evenstep/session.h"
#include "tests/allocations.h"
#include "tests/runtime/forwarding_communicator.h"

using namespace evenstep;

// Threads wait for each other by system calls: in here they are not the session's.
class AsideCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  void start_sum(std::span<float> values) override {
    aside([&] { ForwardingCommunicator::start_sum(values); });
  }
  void start_sum(std::span<Bf16> values) override {
    aside([&] { ForwardingCommunicator::start_sum(values); });
  }
  void start_sum(std::span<F16> values) override {
    aside([&] { ForwardingCommunicator::start_sum(values); });
  }
  bool progress() override {
    bool done = false;
    aside([&] { done = ForwardingCommunicator::progress(); });
    return done;
  }
  void wait() override {
    aside([&] { ForwardingCommunicator::wait(); });
  }

 private:
  template <typename Call>
  void aside(Call&& call) {
    system_calls::set_aside(true);
    call();
    system_calls::set_aside(false);
  }
};

void steady_steps_allocate_nothing(const char* overlap, const char* tail = "auto",
                                   const char* wire = "f32") {
  counting = false;
  allocations = 0;
  constexpr int ranks = 3;
  constexpr int warm_up = 3;
  InProcessWorld world(ranks);
  int resizes = 0;
  world.run([&](int rank) {
    const auto communicator = std::make_unique<AsideCommunicator>(world.communicator(rank));
    bool counts = false;
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
      if (step == warm_up) counts = system_calls::start();
      const Share share = session.begin_step(step % 10 == 9 ? 50 : 96);
      const std::int64_t slow = step > 100 && rank == 1 ? 3 : 1 + rank;
      world.clock(rank).advance_ns(share.count * slow * 1'000'000);
      session.lap(Phase::backward);
      session.gradients_ready(0, share.count == 0 ? 0 : 10000);
      session.end_step({.weight = static_cast<double>(share.count), .loss = 1});
    }
    const system_calls::Counts calls = system_calls::stop();
    counting = false;
    CAPTURE(calls.last_own);
    CHECK(calls.own == 0);
    CHECK(calls.waiting == 0);
    if (counts) CHECK(calls.set_aside > 0);
    if (rank == 0) resizes = session.resizes();
  });
  CHECK(resizes >= 2);
  CHECK(allocations == 0);
}

TEST_CASE("a steady step allocates nothing, and makes no system call") {
  steady_steps_allocate_nothing("off");
}

TEST_CASE("nor does one that overlaps") { steady_steps_allocate_nothing("tests"); }

TEST_CASE("nor does one with a rotating tail") { steady_steps_allocate_nothing("off", "rotating"); }

TEST_CASE("nor one that measures ways to overlap, nor with 16 bits on the wire") {
  steady_steps_allocate_nothing("auto");
  steady_steps_allocate_nothing("tests", "auto", "bf16");
  steady_steps_allocate_nothing("tests", "auto", "f16");
}

TEST_CASE("system calls are counted, each where it belongs, and do what they do") {
  if (!system_calls::start()) return;  // not on this system
  const auto parent = getppid();
  const bool failed = close(-1) != 0 && errno == EBADF;
  sched_yield();
  system_calls::set_aside(true);
  getppid();
  system_calls::set_aside(false);
  const system_calls::Counts calls = system_calls::stop();
  CHECK(parent == getppid());
  CHECK(failed);
  CHECK(calls.own == 2);
  CHECK(calls.waiting == 1);
  CHECK(calls.set_aside == 1);
}

TEST_CASE("a thread that is started is let through, and ends the counting") {
  if (!system_calls::start()) return;
  int value = 0;
  std::thread([&] { value = 1; }).join();
  CHECK(value == 1);
  CHECK(system_calls::stop().own > 0);
}

TEST_CASE("the counter counts") {
  allocations = 0;
  counting = true;
  int* volatile number = new int(1);  // volatile: the compiler may leave out a pair that it sees
  delete number;
  counting = false;
  CHECK(allocations == 1);
}
