// The three rules of LB-BSP, against sequences reckoned by hand.
#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/lb/random.h"
#include "tests/lb/sizer_bench.h"

namespace evenstep::lb {
namespace {

using Shares = std::vector<Samples>;

TEST_CASE("lbbsp-gpu-2020 moves 5 samples from the straggler to the leader once in 5 steps") {
  SizerBench bench(make_lbbsp_gpu_2020(4), {32, 32, 32, 32});
  for (int step = 1; step <= 4; ++step) CHECK_FALSE(bench.step({400, 300, 100, 200}));
  CHECK(bench.step({400, 300, 100, 200}));
  CHECK(bench.shares() == Shares{27, 32, 37, 32});
  CHECK(bench.steps_until_change({340, 300, 120, 200}) == 5);
  CHECK(bench.shares() == Shares{22, 32, 42, 32});
}

TEST_CASE("lbbsp-gpu-2020 goes by the mean over the window, not by one step") {
  SizerBench bench(make_lbbsp_gpu_2020(3), {40, 40, 40});
  for (int step = 1; step <= 4; ++step) bench.step({300, 200, 100});
  bench.step({100, 500, 300});  // means: 260, 260, 140: the lower rank is the straggler
  CHECK(bench.shares() == Shares{35, 40, 45});
}

TEST_CASE("lbbsp-gpu-2020 halves the step and doubles the window when the pair swaps roles") {
  SizerBench bench(make_lbbsp_gpu_2020(2), {32, 32});
  CHECK(bench.steps_until_change({200, 100}) == 5);
  CHECK(bench.shares() == Shares{27, 37});
  CHECK(bench.steps_until_change({100, 200}) == 5);  // swapped: by 2 from here on
  CHECK(bench.shares() == Shares{29, 35});
  CHECK(bench.steps_until_change({100, 200}) == 10);
  CHECK(bench.shares() == Shares{31, 33});
  CHECK(bench.steps_until_change({200, 100}) == 10);  // and again: by 1
  CHECK(bench.shares() == Shares{30, 34});
  CHECK(bench.steps_until_change({200, 100}) == 20);
  CHECK(bench.shares() == Shares{29, 35});
}

TEST_CASE("lbbsp-gpu-2020 gives to the fastest rank that has memory to spare") {
  SizerBench bench(make_lbbsp_gpu_2020(3), {32, 32, 32});
  bench.records[1].most = 32;
  bench.records[2].most = 34;
  CHECK(bench.steps_until_change({300, 100, 200}) == 5);
  CHECK(bench.shares() == Shares{30, 32, 34});
  CHECK(bench.steps_until_change({300, 100, 200}, 50) == 0);
}

TEST_CASE("lbbsp-gpu-2020 leaves equal times alone and every rank its least") {
  SizerBench equal(make_lbbsp_gpu_2020(3), {8, 8, 8});
  CHECK(equal.steps_until_change({100, 100, 100}, 50) == 0);
  SizerBench least(make_lbbsp_gpu_2020(2), {8, 8});
  least.records[0].least = 6;
  CHECK(least.steps_until_change({300, 100}) == 5);
  CHECK(least.shares() == Shares{6, 10});
  CHECK(least.steps_until_change({300, 100}, 50) == 0);
}

TEST_CASE("lbbsp-gpu-2020 moves whole granules") {
  SizerBench bench(make_lbbsp_gpu_2020(2), {32, 33}, 4);
  bench.steps_until_change({200, 100});
  CHECK(bench.shares() == Shares{28, 37});
}

TEST_CASE("steps under way, short, cold or without a time do not count") {
  SizerBench bench(make_lbbsp_gpu_2020(2), {32, 32});
  for (int step = 1; step <= 4; ++step) bench.step({200, 100});
  bench.records[0].samples = 10;  // a short batch
  CHECK_FALSE(bench.take_records());
  bench.records[0].flags = flag_cold;
  CHECK_FALSE(bench.step({900, 100}));
  bench.records[0].flags = 0;
  CHECK_FALSE(bench.step({0, 100}));
  CHECK(bench.step({200, 100}));
  CHECK(bench.shares() == Shares{27, 37});
  bench.records[0].samples = 32;  // under way when the partition changed: lag 1
  bench.records[1].samples = 32;
  CHECK_FALSE(bench.take_records());
  CHECK(bench.steps_until_change({200, 100}) == 5);
}

// t = 10 ns + max(flat, 2 ns b), flat up to 8 samples.
Record profile(Nanoseconds fixed, Picoseconds per_sample, Samples saturation) {
  Record record;
  record.fixed_ns = fixed;
  record.per_sample_ps = per_sample;
  record.floor_ns = fixed + per_sample * saturation / 1000;
  return record;
}

TEST_CASE("lbbsp-gpu-2018 solves the profile once") {
  SizerBench bench(make_lbbsp_gpu_2018(2), {32, 32});
  bench.records = {profile(10, 2000, 8), profile(40, 1000, 16)};
  CHECK(bench.start());
  // 10 + 2 b = 40 + (64 - b): b = 31.3; 72.67 ns become 72 and 73.
  CHECK(bench.shares() == Shares{31, 33});
  CHECK(bench.steps_until_change({72, 73}, 100) == 0);
}

TEST_CASE("lbbsp-gpu-2018 knows that below saturation samples are free") {
  SizerBench bench(make_lbbsp_gpu_2018(2), {12, 12});
  bench.records = {profile(0, 1000, 16), profile(0, 4000, 1)};
  CHECK(bench.start());
  CHECK(bench.shares()[0] >= 16);
  CHECK(bench.shares()[0] + bench.shares()[1] == 24);
}

TEST_CASE("lbbsp-gpu-2018 solves again once a rank was off its profile for 10 steps in a row") {
  SizerBench bench(make_lbbsp_gpu_2018(2), {32, 32});
  bench.records = {profile(0, 1'000'000, 0), profile(0, 1'000'000, 0)};
  CHECK(bench.start());
  CHECK(bench.shares() == Shares{32, 32});
  CHECK_FALSE(bench.step({32'000, 32'000}));
  SUBCASE("lasting") {
    // The first is within 10 % when smoothed: 1.2 against a mean of 1.1. At the eleventh the factor
    // is 2 - 0.8^11 = 1.914: 64 / 2.914 = 21.96.
    CHECK(bench.steps_until_change({64'000, 32'000}) == 11);
    CHECK(bench.shares() == Shares{22, 42});
  }
  SUBCASE("a spike") {
    CHECK_FALSE(bench.step({64'000, 32'000}));
    CHECK(bench.steps_until_change({32'000, 32'000}, 100) == 0);
  }
  SUBCASE("all ranks alike") { CHECK(bench.steps_until_change({64'000, 64'000}, 100) == 0); }
}

TEST_CASE("lbbsp-gpu-2018 without a profile says which rank has none") {
  SizerBench bench(make_lbbsp_gpu_2018(2), {32, 32});
  bench.records = {profile(10, 2000, 8), Record{}};
  CHECK_THROWS_WITH_AS(
      bench.start(), "balance lbbsp-gpu-2018: rank 1 brought no profile of its speed to the start",
      std::invalid_argument);
}

TEST_CASE("lbbsp-cpu cuts in proportion to the speeds foreseen") {
  SizerBench bench(make_lbbsp_cpu(4, "last"), {30, 30, 30, 30});
  // Speeds 3, 1, 1, 1 in 10^8 samples a second.
  CHECK(bench.step({100, 300, 300, 300}));
  CHECK(bench.shares() == Shares{60, 20, 20, 20});
  // Now 3, 2, 1, 4 (60 in 200 ns, 20 in 100, 200 and 50 ns).
  CHECK(bench.step({200, 100, 200, 50}));
  CHECK(bench.shares() == Shares{36, 24, 12, 48});
}

TEST_CASE("lbbsp-cpu with ema weighs the newest speed by a fifth") {
  SizerBench bench(make_lbbsp_cpu(2, "ema"), {60, 60});
  CHECK_FALSE(bench.step({100, 100}));
  // 0.6 and then 0.6 + 0.2 (3 - 0.6) = 1.08 against 0.6: 120 x 1.08 / 1.68 = 77.1.
  CHECK(bench.step({20, 100}));
  CHECK(bench.shares() == Shares{77, 43});
}

TEST_CASE("lbbsp-cpu with narx follows the CPU it sees before the step") {
  Random random(5);
  SizerBench bench(make_lbbsp_cpu(2, "narx"), {64, 64});
  std::vector<double> cores = {1, 1};
  int near = 0;
  for (int step = 0; step < 600; ++step) {
    std::vector<Nanoseconds> own;
    for (std::size_t r = 0; r < 2; ++r)
      own.push_back(
          static_cast<Nanoseconds>(1e6 * static_cast<double>(bench.shares()[r]) / cores[r]));
    for (std::size_t r = 0; r < 2; ++r) {
      cores[r] = random.real(0.5, 1.5);
      bench.records[r].cpu_available = static_cast<std::uint32_t>(cores[r] * 65536);
    }
    bench.step(own);
    const double exact = 128 * cores[0] / (cores[0] + cores[1]);
    const auto off = static_cast<double>(bench.shares()[0]) - exact;
    if (step >= 300) near += off > -8 && off < 8 ? 1 : 0;
  }
  CHECK(near >= 270);
}

TEST_CASE("lbbsp-cpu refuses a predictor there is not") {
  CHECK_THROWS_WITH_AS(make_lbbsp_cpu(2, "oracle"),
                       "unknown predictor 'oracle'; choose one of last, ema, ar, narx",
                       std::invalid_argument);
  CHECK_NOTHROW(make_sizer("lbbsp-cpu", 2, "ar"));
}

}  // namespace
}  // namespace evenstep::lb
