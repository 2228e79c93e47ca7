// OmniLearn's, LBB's and DBS's rules, against sequences reckoned by hand.
#include <doctest/doctest.h>

#include "tests/lb/sizer_bench.h"

namespace evenstep::lb {
namespace {

using Shares = std::vector<Samples>;

TEST_CASE("proportional looks every 20 steps and moves each share by mean t / t - 1") {
  SizerBench bench(make_proportional(4), {100, 100, 100, 100});
  // The mean is 100: asked are 100 / 110 - 1 = -9.1 %, +11.1 %, 0, 0; 402 in all, scaled to 400.
  CHECK(bench.steps_until_change({110, 90, 100, 100}) == 20);
  CHECK(bench.shares() == Shares{90, 111, 100, 99});
}

TEST_CASE("proportional moves a share by at most a fifth") {
  SizerBench bench(make_proportional(2), {100, 100});
  // The mean is 250: asked are -37.5 % and +150 %, allowed 80 : 120.
  CHECK(bench.steps_until_change({400, 100}) == 20);
  CHECK(bench.shares() == Shares{80, 120});
  CHECK(bench.steps_until_change({320, 120}) == 20);
  CHECK(bench.shares() == Shares{61, 139});  // 64 : 144 is 61.5 : 138.5; nearest in ratio
}

TEST_CASE("proportional stops in its dead band") {
  SizerBench bench(make_proportional(2), {100, 100});
  CHECK(bench.steps_until_change({104, 96}, 1000) == 0);  // 96 / 100: 4.2 % asked
  SizerBench beyond(make_proportional(2), {100, 100});
  CHECK(beyond.steps_until_change({105, 95}, 1000) == 20);  // 95 / 100: 5.3 % asked
}

TEST_CASE("proportional smooths times") {
  SizerBench bench(make_proportional(2), {100, 100});
  for (int step = 1; step < 20; ++step) CHECK_FALSE(bench.step({100, 100}));
  CHECK_FALSE(bench.step({140, 100}));  // 108 against 100 smoothed: within 5 % of their mean
  SizerBench larger(make_proportional(2), {100, 100});
  for (int step = 1; step < 20; ++step) CHECK_FALSE(larger.step({100, 100}));
  CHECK(larger.step({200, 100}));  // 120 against 100
}

TEST_CASE("lbb does nothing while the straggler effect is below 0.05") {
  SizerBench bench(make_lbb(3), {40, 40, 40});
  CHECK(bench.steps_until_change({102, 100, 98}, 100) == 0);  // 0.04
}

TEST_CASE("lbb moves one sample from the slowest to the fastest below 0.3") {
  SizerBench bench(make_lbb(3), {40, 40, 40});
  CHECK(bench.step({103, 100, 97}));  // 0.06
  CHECK(bench.shares() == Shares{39, 40, 41});
  CHECK(bench.step({90, 114, 96}));  // 0.24
  CHECK(bench.shares() == Shares{40, 39, 41});
}

TEST_CASE("lbb refits and solves from 0.3 on") {
  SizerBench bench(make_lbb(2), {60, 60});
  // One share seen: proportional. 120 in all at 2 : 1.
  CHECK(bench.step({6000, 3000}));
  CHECK(bench.shares() == Shares{40, 80});
  // Truly 3000 + 50 b and 50 b: 5000 and 4000, an effect of 0.22: one sample.
  CHECK(bench.step({5000, 4000}));
  CHECK(bench.shares() == Shares{39, 81});
  // The second rank slows to 100 a sample: 0.53. Its line through (60, 3000), (80, 4000) and
  // (81, 8100) falls below 0 at 0 samples, so it is taken as proportional, 15100 / 221 = 68.3 a
  // sample; the first's is exact. 3000 + 50 b = 68.3 (120 - b): b = 43.9.
  CHECK(bench.step({4950, 8100}));
  CHECK(bench.shares() == Shares{44, 76});
}

TEST_CASE("lbb finds fixed costs by least squares") {
  SizerBench bench(make_lbb(2), {60, 60});
  CHECK(bench.step({9000, 3000}));  // 6000 + 50 b and 50 b; proportional first: 1 : 3
  CHECK(bench.shares() == Shares{30, 90});
  CHECK(bench.step({7500, 4500}));  // 0.5: now both lines are known: 6000 + 50 b = 50 (120 - b)
  CHECK(bench.shares() == Shares{1, 119});  // b = 0; every rank keeps a sample
}

TEST_CASE("lbb takes no line from shares that hardly differ") {
  SizerBench bench(make_lbb(2), {100, 100});
  CHECK(bench.step({1100, 1000}));
  CHECK(bench.shares() == Shares{99, 101});
  // A line through (100, 1100) and (99, 1000) would start far below 0, one through (100, 1000) and
  // (101, 1400) too; the means say 1050 / 99.5 and 1200 / 100.5: 106.2 : 93.8.
  CHECK(bench.step({1000, 1400}));
  CHECK(bench.shares() == Shares{106, 94});
  // (100, 1100), (99, 1000), (106, 1101) make a line of 9.4 a sample from 109 on: not believed. The
  // means are 1067 / 101.67 and 1300 / 98.33; 200 samples at 1 / 10.49 : 1 / 13.22.
  CHECK(bench.step({1101, 1500}));
  CHECK(bench.shares() == Shares{112, 88});
}

TEST_CASE("dbs waits for the epoch, then cuts in proportion to share over mean time") {
  SizerBench bench(make_dbs(3, 10), {40, 40, 40});
  for (int step = 1; step < 10; ++step) CHECK_FALSE(bench.step({100, 200, 200}));
  CHECK(bench.step({100, 200, 200}));
  CHECK(bench.shares() == Shares{60, 30, 30});
  // 60 in 120, 30 in 60, 30 in 30: 0.5 : 0.5 : 1.
  CHECK(bench.steps_until_change({120, 60, 30}) == 10);
  CHECK(bench.shares() == Shares{30, 30, 60});
}

TEST_CASE("dbs goes by the epoch's mean, and an epoch is 100 steps") {
  SizerBench bench(make_dbs(2), {60, 60});
  for (int step = 1; step <= 50; ++step) CHECK_FALSE(bench.step({100, 100}));
  CHECK(bench.steps_until_change({300, 100}) == 50);  // means 200 and 100
  CHECK(bench.shares() == Shares{40, 80});
}

TEST_CASE("static-functional refines its models at the parts in force until times are equal") {
  SizerBench bench(make_static_functional(2), {60, 60});
  // Truly 3000 + 50 b and 50 b. Means over 5 steps; first constant speeds, 1 : 2.
  CHECK(bench.steps_until_change({6000, 3000}) == 5);
  CHECK(bench.shares() == Shares{40, 80});
  // Speeds 0.008 at 40 and 0.01 at 60 for the first, 0.02 for the second: below 40 the first is
  // taken to keep 0.008: 120 x 8 / 28 = 34.3.
  CHECK(bench.steps_until_change({5000, 4000}) == 5);
  CHECK(bench.shares() == Shares{34, 86});
  // 4700 and 4300: 0.0723 at 34: 31.9.
  CHECK(bench.steps_until_change({4700, 4300}) == 5);
  CHECK(bench.shares() == Shares{32, 88});
  CHECK(bench.steps_until_change({4600, 4400}, 1000) == 0);  // 4.5 % apart
  CHECK(bench.steps_until_change({9000, 4400}, 1000) == 0);  // done for good
}

TEST_CASE("a cap that falls below a share in force is kept at once") {
  for (const auto make : {make_proportional, make_lbb, make_lbbsp_gpu_2020}) {
    SizerBench bench(make(3), {40, 40, 40});
    CHECK_FALSE(bench.step({100, 100, 100}));
    bench.records[0].most = 30;
    CHECK(bench.step({100, 100, 100}));
    CHECK(bench.shares() == Shares{30, 45, 45});
  }
}

}  // namespace
}  // namespace evenstep::lb
