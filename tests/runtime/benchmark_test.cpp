#include "evenstep/benchmark.h"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <random>
#include <thread>

#include "evenstep/in_process.h"

using namespace evenstep;

namespace {

constexpr std::int64_t ms = 1'000'000;

// What `mean` is measured for runs that take `times` in turn, and how many were measured.
struct Measured {
  std::int64_t mean = 0;
  int runs = 0;

  explicit Measured(std::vector<std::int64_t> times) {
    InProcessWorld world(1);
    const auto communicator = world.communicator(0);
    const std::vector<std::int64_t> sizes = {7};
    const auto run = [&](std::int64_t size) {
      CHECK(size == 7);
      world.clock(0).advance_ns(times[static_cast<std::size_t>(runs++) % times.size()]);
    };
    mean = benchmark(*communicator, sizes, run, world.clock(0))[0];
  }
};

// Sums that end when all ranks have started them, and not before; what MPI promises, on threads.
class LateSums final : public Communicator {
 public:
  struct World {
    explicit World(int ranks_) : ranks(ranks_), barrier(ranks_) {}
    int ranks;
    std::barrier<> barrier;
    std::atomic<int> started = 0;
  };
  LateSums(World& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return world_.ranks; }
  const std::string& host() const override { return host_; }
  void start_sum(std::span<float> /*values*/) override { start(); }
  void start_sum(std::span<Bf16> /*values*/) override { start(); }
  void start_sum(std::span<F16> /*values*/) override { start(); }
  bool progress() override { return world_.started >= sums_ * world_.ranks; }
  void wait() override {}
  std::vector<std::string> gather(const std::string& mine) override {
    world_.barrier.arrive_and_wait();
    return std::vector<std::string>(static_cast<std::size_t>(size()), mine);
  }
  void abort(int /*exit_code*/) override {}
  std::int64_t sum_calls() const override { return sums_; }

 private:
  void start() {
    ++world_.started;
    ++sums_;
  }

  World& world_;
  int rank_;
  int sums_ = 0;
  std::string host_ = "localhost";
};

Forecast fit(const std::vector<double>& work, const Forecast& truth, double noise = 0,
             unsigned seed = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> scatter(1, noise);
  std::vector<std::int64_t> times;
  for (const double w : work)
    times.push_back(
        std::llround((noise > 0 ? scatter(random) : 1) *
                     std::max(static_cast<double>(truth.floor_ns),
                              static_cast<double>(truth.fixed_ns) +
                                  1e-3 * static_cast<double>(truth.per_sample_ps) * w)));
  return fit_forecast(work, times);
}

double time_at(const Forecast& forecast, double work) {
  return std::max(static_cast<double>(forecast.floor_ns),
                  static_cast<double>(forecast.fixed_ns) +
                      1e-3 * static_cast<double>(forecast.per_sample_ps) * work);
}

const std::vector<double> sizes = {1, 8, 16, 32, 48, 64, 128};

}  // namespace

TEST_CASE("five runs where they are all alike, more the more they differ, at most fifty") {
  CHECK(Measured({10 * ms}).runs == 5);
  CHECK(Measured({10 * ms}).mean == 10 * ms);
  // By hand: of 100 and 105 in turn, t s / sqrt(n) is 4.59 after 5 runs, 2.83 after 8 and 2.54
  // after 9; allowed are 2.5 % of the mean, 2.56.
  const Measured alternating({100 * ms, 105 * ms});
  CHECK(alternating.runs == 9);
  CHECK(alternating.mean == 102'222'222);
  CHECK(Measured({1 * ms, 9 * ms}).runs == 50);
  CHECK(Measured({1 * ms, 9 * ms}).mean == 5 * ms);
  CHECK(Measured({0}).mean == 1);  // a speed must be known
}

TEST_CASE("no more than two seconds, but five runs") {
  CHECK(Measured({100 * ms, 900 * ms}).runs == 5);
  CHECK(Measured({10 * ms, 500 * ms}).runs == 8);
}

TEST_CASE("a rank that knows its mean computes on until all do, size by size") {
  LateSums::World world(3);
  std::atomic<int> runs_of_quick = 0;
  std::vector<std::thread> threads;
  const std::vector<std::int64_t> two_sizes = {3, 5};
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      LateSums communicator(world, rank);
      int slow_runs = 0;
      const auto run = [&](std::int64_t size) {
        std::this_thread::yield();
        if (rank == 1 && size == 3) ++runs_of_quick;
        if (rank != 2 || size != 3 || ++slow_runs != 5) return;
        // The slow rank's last run ends only after the quick one has done four times its own five.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (runs_of_quick < 20 && std::chrono::steady_clock::now() < end)
          std::this_thread::yield();
      };
      const ManualClock clock;
      CHECK(benchmark(communicator, two_sizes, run, clock).size() == 2);
      CHECK(communicator.sum_calls() == 2);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(runs_of_quick >= 20);
}

TEST_CASE("fits give back the profile they were made from") {
  for (const Forecast& truth :
       {Forecast{0, 1'000'000'000, 0}, Forecast{4 * ms, 1'000'000'000, 0},
        Forecast{20 * ms, 50'000'000, 0}, Forecast{30 * ms, 500'000'000, 62 * ms},
        Forecast{1 * ms, 1'000'000'000, 33 * ms}, Forecast{0, 1'000'000'000, 64 * ms}}) {
    const Forecast found = fit(sizes, truth);
    CHECK(found.per_sample_ps == doctest::Approx(truth.per_sample_ps).epsilon(0.001));
    CHECK(std::abs(found.fixed_ns - truth.fixed_ns) <= ms / 100);
    for (const double w : {1.0, 5.0, 20.0, 33.0, 60.0, 100.0, 500.0})
      CHECK(time_at(found, w) == doctest::Approx(time_at(truth, w)).epsilon(0.03));
  }
}

TEST_CASE("noise of 2 % moves times by little") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Forecast truth{seed % 30 * ms, 1'000'000'000, seed % 50 * ms};
    const Forecast found = fit(sizes, truth, 0.02, seed);
    CAPTURE(seed);
    for (const double w : {8.0, 32.0, 64.0, 128.0})
      CHECK(time_at(found, w) == doctest::Approx(time_at(truth, w)).epsilon(0.08));
    CHECK(found.fixed_ns >= 0);
    CHECK(found.per_sample_ps >= 1);
  }
}

TEST_CASE("one size, and times that fall with the size") {
  const Forecast one = fit_forecast(std::vector{32.0}, std::vector<std::int64_t>{64 * ms});
  CHECK(one.fixed_ns == 0);
  CHECK(one.per_sample_ps == 2'000'000'000);
  CHECK(one.floor_ns == 0);
  const Forecast falling = fit_forecast(std::vector{1.0, 2.0, 3.0},
                                        std::vector<std::int64_t>{30 * ms, 20 * ms, 10 * ms});
  CHECK(falling.per_sample_ps >= 1);
  CHECK(falling.fixed_ns >= 0);
  CHECK_THROWS_AS(fit_forecast({}, {}), UsageError);
  CHECK_THROWS_AS(fit_forecast(std::vector{1.0}, std::vector<std::int64_t>{0}), UsageError);
  CHECK_THROWS_AS(fit_forecast(std::vector{0.0}, std::vector<std::int64_t>{1}), UsageError);
  CHECK_THROWS_AS(fit_forecast(std::vector{1.0, 2.0}, std::vector<std::int64_t>{1}), UsageError);
}

TEST_CASE("work follows the table of sizes") {
  const std::vector<std::int64_t> plain = {1, 4};
  CHECK(work_of(plain, {}) == std::vector<double>{1, 4});
  // The largest size costs its number of samples, 4; one sample costs half of that.
  CHECK(work_of(plain, std::vector<std::int64_t>{0, 5, 6, 7, 10}) == std::vector<double>{2, 4});
}
