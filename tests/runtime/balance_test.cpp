// The layer below Session: the caller sums the tails.
#include "evenstep/balance.h"

#include <doctest/doctest.h>

#include <deque>
#include <numeric>
#include <string>

using namespace evenstep;

namespace {

constexpr std::int64_t ms = 1'000'000;

// Ranks whose tails are summed here, at clocks that are set here.
template <typename Real>
class Job {
 public:
  Job(int ranks, const BalanceOptions& options, bool can_gather)
      : clocks(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) {
      BalanceOptions mine = options;
      mine.clock = &clocks[static_cast<std::size_t>(r)];
      if (can_gather) mine.gather = [this](const std::string& text) { return gather(text); };
      balances.emplace_back(r, ranks, mine);
    }
  }

  // A step in which rank r takes cost[r] for a sample. Results by rank.
  std::vector<StepResult> step(const std::vector<std::int64_t>& cost,
                               const std::vector<double>& loss) {
    std::vector<Real> sum(balances[0].tail_size());
    std::vector<Real> mine(sum.size());
    for (std::size_t r = 0; r < balances.size(); ++r) {
      const Share share = balances[r].begin_step();
      clocks[r].advance_ns(cost[r] * share.count);
      balances[r].write(std::span<Real>(mine),
                        {.weight = static_cast<double>(share.count), .loss = loss[r]});
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
    }
    std::vector<StepResult> results;
    for (Balance& balance : balances) results.push_back(balance.read(std::span<const Real>(sum)));
    return results;
  }

  std::vector<ManualClock> clocks;
  std::deque<Balance> balances;
  int gathers = 0;

 private:
  // No rank can wait for another here: each is answered from what it says itself.
  std::vector<std::string> gather(const std::string& text) {
    ++gathers;
    return std::vector<std::string>(balances.size(), text);
  }
};

BalanceOptions options_for(std::int64_t batch, const char* tail) {
  BalanceOptions options;
  options.global_batch = batch;
  options.tail = tail;
  return options;
}

}  // namespace

TEST_CASE_TEMPLATE("ranks that sum their own tails share the batch by speed", Real, float, double) {
  for (const char* tail : {"slots", "rotating"}) {
    Job<Real> job(6, options_for(600, tail), false);
    const std::vector<double> loss(6, 2.0);
    for (int step = 0; step < 40; ++step) {
      const auto results = job.step({ms, ms, 2 * ms, ms, 4 * ms, ms}, loss);
      for (const StepResult& result : results) {
        CHECK(result.weight == 600);
        CHECK(result.loss == doctest::Approx(12.0 / 600));
        CHECK(result.decision == results[0].decision);
      }
      for (const Balance& balance : job.balances)
        CHECK(std::ranges::equal(balance.partition(), job.balances[0].partition()));
    }
    const auto partition = job.balances[3].partition();
    CHECK(std::accumulate(partition.begin(), partition.end(), std::int64_t{0}) == 600);
    CHECK(partition[2] == doctest::Approx(64).epsilon(0.05));
    CHECK(partition[4] == doctest::Approx(32).epsilon(0.05));
    CHECK(job.balances[0].resizes() >= 1);
    CHECK(job.gathers == 0);
  }
}

TEST_CASE(
    "a rotating tail asks for a gather in the first two warm steps, and where something is wrong") {
  Job<float> job(8, options_for(64, "rotating"), true);
  std::vector<double> loss(8, 1.0);
  const std::vector<std::int64_t> cost(8, ms);
  for (int step = 0; step < 10; ++step) job.step(cost, loss);
  CHECK(job.gathers == 2 * 8);
  loss[5] = std::numeric_limits<double>::infinity();
  CHECK(job.step(cost, loss)[0].not_finite_ranks == 1);
  CHECK(job.gathers == 3 * 8);
  Job<float> slots(8, options_for(64, "slots"), true);
  for (int step = 0; step < 10; ++step) CHECK(slots.step(cost, loss)[2].not_finite_rank == 5);
  CHECK(slots.gathers == 0);
}

TEST_CASE("what is wrong is said") {
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message([] { Balance(0, 2, options_for(8, "ring")); }).find("'ring'") != std::string::npos);
  CHECK(message([] { Balance(0, 2, options_for(0, "auto")); }).find("batch is 0") !=
        std::string::npos);
  CHECK(message([] { Balance(2, 2, options_for(8, "auto")); }).find("rank is 2") !=
        std::string::npos);
  BalanceOptions tight = options_for(8, "auto");
  tight.most_share = 3;
  CHECK(message([&] { Balance(0, 2, tight); }).find("at most 6") != std::string::npos);
  Balance balance(0, 1, options_for(8, "auto"));
  std::vector<float> tail(balance.tail_size() - 1);
  CHECK(message([&] { balance.write(std::span<float>(tail), {}); }).find("tail") !=
        std::string::npos);
}

TEST_CASE("what is charged in a collective is no waiting, but own time of the next step") {
  Job<float> job(1, options_for(10, "auto"), false);
  Balance& balance = job.balances[0];
  ManualClock& clock = job.clocks[0];
  std::vector<float> tail(balance.tail_size());
  const auto step = [&](std::int64_t own, std::int64_t inside, std::int64_t charged) {
    balance.begin_step();
    clock.advance_ns(own);
    balance.lap(Phase::backward);
    balance.write(std::span<float>(tail), {.weight = 10});
    clock.advance_ns(inside);
    balance.charge(charged);
    balance.read(std::span<const float>(tail));
  };
  step(50 * ms, 30 * ms, 20 * ms);
  CHECK(balance.own_ns() == 50 * ms);
  CHECK(balance.last_wait_ns() == 10 * ms);
  step(40 * ms, 30 * ms, 0);
  CHECK(balance.own_ns() == 60 * ms);
  CHECK(balance.last_wait_ns() == 30 * ms);
  step(40 * ms, 30 * ms, 0);
  CHECK(balance.own_ns() == 40 * ms);
}

TEST_CASE("a rank whose parameters differ is named by any tail") {
  for (const char* tail : {"slots", "rotating"}) {
    Job<double> job(5, options_for(50, tail), false);
    std::vector<float> same(10, 1);
    std::vector<float> other = same;
    other[3] = 2;
    for (std::size_t r = 0; r < 5; ++r) job.balances[r].watch_parameters(r == 4 ? other : same);
    std::string text;
    try {
      for (int step = 0; step < 10; ++step) job.step({ms, ms, ms, ms, ms}, {1, 1, 1, 1, 1});
    } catch (const AgreedError& error) {
      text = error.what();
    }
    const bool named = text.find("rank 4") != std::string::npos;
    const bool seen = text.find("another step, partition or parameters") != std::string::npos;
    CHECK((named || (seen && std::string(tail) == "rotating")));
  }
}
