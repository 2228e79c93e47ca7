// The loader: gives what was asked for, bit by bit, holds up nobody, and ends in every state.
#include "training/prefetcher.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <stdexcept>

#include "tests/allocations.h"

namespace evenstep::train {
namespace {

constexpr std::size_t elements = 3;

float value(std::int64_t epoch, std::int64_t position, std::size_t i) {
  return static_cast<float>(1000 * epoch + 10 * position) + static_cast<float>(i);
}

int decode(std::int64_t epoch, std::int64_t position, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(epoch, position, i);
  return static_cast<int>(position % 7);
}

/// A loader whose progress the test can see, so that it can let a step take as long as that needs.
struct Watched {
  std::atomic<std::int64_t> decoded = 0;
  Prefetcher prefetcher;

  explicit Watched(std::int64_t most_samples)
      : prefetcher(
            [this](std::int64_t epoch, std::int64_t position, std::span<float> out) {
              const int label = decode(epoch, position, out);
              ++decoded;
              return label;
            },
            elements, most_samples) {}

  /// Asks, and waits until `held` samples more are decoded; all but the last are there then.
  void step(std::int64_t epoch, std::int64_t first, std::int64_t count, std::int64_t held) {
    const std::int64_t before = decoded;
    prefetcher.begin_step(epoch, first, count);
    while (decoded < before + held) std::this_thread::yield();
  }
};

void check(const Prefetcher::Sample& sample, std::int64_t epoch, std::int64_t position) {
  REQUIRE(sample.input.size() == elements);
  for (std::size_t i = 0; i < elements; ++i) CHECK(sample.input[i] == value(epoch, position, i));
  CHECK(sample.label == position % 7);
}

TEST_CASE("what was asked for in one step is there in the next") {
  Watched watched(10);
  const Prefetcher& prefetcher = watched.prefetcher;
  CHECK(prefetcher.find(0, 0).input.empty());
  watched.step(2, 100, 5, 5);
  CHECK(prefetcher.find(2, 100).input.empty());  // it is the next step's
  watched.step(2, 105, 20, 10);                  // of which there is room for 10
  for (std::int64_t position : {103, 100, 102, 101})
    check(prefetcher.find(2, position), 2, position);
  for (std::int64_t position : {99, 105, 106}) CHECK(prefetcher.find(2, position).input.empty());
  CHECK(prefetcher.find(1, 100).input.empty());
  CHECK(prefetcher.find(3, 100).input.empty());
  watched.step(3, 0, 0, 0);
  check(prefetcher.find(2, 113), 2, 113);
  CHECK(prefetcher.find(2, 115).input.empty());
  watched.step(3, 0, 0, 0);
  CHECK(prefetcher.find(3, 0).input.empty());
}

TEST_CASE("a loader that is late is not waited for, and never mixes steps up") {
  const auto seed = std::random_device{}();
  MESSAGE("seed ", seed);
  std::mt19937 random(seed);
  Prefetcher prefetcher(
      [&](std::int64_t epoch, std::int64_t position, std::span<float> out) {
        if (position % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        return decode(epoch, position, out);
      },
      elements, 16);
  std::int64_t first = 0;
  int found = 0;
  for (int step = 0; step < 3000; ++step) {
    const std::int64_t next = first + 16;
    prefetcher.begin_step(step % 3, next, static_cast<std::int64_t>(random() % 20));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
    for (std::int64_t position = first - 3; position < next; ++position)
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        const Prefetcher::Sample sample = prefetcher.find(epoch, position);
        if (sample.input.empty()) continue;
        check(sample, epoch, position);
        ++found;
      }
    first = next;
  }
  CHECK(found > 0);
}

TEST_CASE("a steady step allocates nothing") {
  Prefetcher prefetcher(decode, elements, 10);
  prefetcher.begin_step(0, 0, 10);
  const long before = allocations;
  for (int step = 1; step < 500; ++step) {
    prefetcher.begin_step(0, step * 10, 10);
    prefetcher.find(0, (step - 1) * 10);
  }
  CHECK(allocations == before);
}

TEST_CASE("what decoding throws comes out of the step") {
  Prefetcher prefetcher(
      [](std::int64_t, std::int64_t position, std::span<float>) -> int {
        if (position == 12) throw std::runtime_error("sample 12 is gone");
        return 0;
      },
      elements, 10);
  prefetcher.begin_step(0, 0, 10);
  const auto go_on = [&] {
    for (;;) {  // however late the loader comes to it
      prefetcher.begin_step(0, 10, 10);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  CHECK_THROWS_WITH_AS(go_on(), "sample 12 is gone", std::runtime_error);
}

TEST_CASE("it ends at once: unused, idle, at work") {
  {
    const Prefetcher unused(decode, elements, 10);
  }
  for (int round = 0; round < 200; ++round) {
    Prefetcher prefetcher(decode, elements, 1000);
    for (int step = 0; step < round % 4; ++step) prefetcher.begin_step(0, 1000 * step, 1000);
  }
}

TEST_CASE("the loader's CPU time is known") {
  Watched watched(1000);
  const std::int64_t before = watched.prefetcher.cpu_ns();
  watched.step(0, 0, 1000, 1000);
  CHECK(watched.prefetcher.cpu_ns() > before);
}

}  // namespace
}  // namespace evenstep::train
