#include <doctest/doctest.h>

#include <atomic>

#include "evenstep/in_process.h"

using namespace evenstep;

TEST_CASE("in-process sums and gathers") {
  for (int ranks : {1, 2, 3, 5, 8}) {
    InProcessWorld world(ranks);
    world.run([&](int rank) {
      const auto communicator = world.communicator(rank);
      for (int round = 1; round <= 20; ++round) {
        std::vector<float> values = {static_cast<float>(rank * round), 1};
        communicator->sum(values);
        const int sum_of_ranks = ranks * (ranks - 1) / 2;
        CHECK(values[0] == static_cast<float>(round * sum_of_ranks));
        CHECK(values[1] == static_cast<float>(ranks));
        const auto texts = communicator->gather(std::string(static_cast<std::size_t>(rank), 'x'));
        for (int r = 0; r < ranks; ++r)
          CHECK(texts[static_cast<std::size_t>(r)].size() == static_cast<std::size_t>(r));
      }
      CHECK(communicator->sum_calls() == 20);
    });
  }
}

TEST_CASE("clocks meet at the latest") {
  InProcessWorld world(3);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    world.clock(rank).advance_ns(100 * (rank + 1));
    std::vector<float> nothing;
    communicator->sum(nothing);
    CHECK(world.clock(rank).now_ns() == 300);
  });
}

TEST_CASE("sums run at the same time, in the order of their start") {
  InProcessWorld world(3);
  world.set_link(10);
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    std::vector<float> one(5, static_cast<float>(rank));
    std::vector<float> two(3, 1);
    communicator->start_sum(one);
    world.clock(rank).advance_ns(20 * rank);
    communicator->start_sum(two);
    communicator->wait();
    CHECK(communicator->progress());
    CHECK(one == std::vector<float>(5, 3));
    CHECK(two == std::vector<float>(3, 3));
    CHECK(world.clock(rank).now_ns() == 4 * (5 * 10 + 3 * 10));
    world.clock(rank).advance_ns(rank);
    communicator->sum(two);
    CHECK(world.clock(rank).now_ns() == 320 + 2 + 4 * 3 * 10);
  });
}

TEST_CASE("more sums than a rank may have under way are refused") {
  InProcessWorld world(1);
  const auto communicator = world.communicator(0);
  std::vector<float> values(300);
  for (std::size_t i = 0; i < 256; ++i) communicator->start_sum(std::span(values).subspan(i, 1));
  CHECK_THROWS_WITH(communicator->start_sum(values), "more than 256 sums are under way");
  communicator->wait();
  communicator->sum(values);
}

TEST_CASE("an error on one rank is agreed by all, with the lowest rank's text and code") {
  InProcessWorld world(5);
  std::atomic<int> agreed = 0;
  world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    agree_on_errors(*communicator, [] {});
    try {
      agree_on_errors(*communicator, [&] {
        if (rank == 2) throw UsageError("two");
        if (rank == 4) throw Error("four");
      });
    } catch (const AgreedError& error) {
      CHECK(std::string(error.what()) == "two");
      CHECK(error.exit_code() == 2);
      ++agreed;
    }
  });
  CHECK(agreed == 5);
}

TEST_CASE("a rank that fails alone ends the others' next call") {
  InProcessWorld world(3);
  CHECK_THROWS_WITH(world.run([&](int rank) {
    const auto communicator = world.communicator(rank);
    if (rank == 1) throw Error("rank 1 broke");
    std::vector<float> values(1);
    communicator->sum(values);
  }),
                    "rank 1 broke");
}
