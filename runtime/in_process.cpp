#include "evenstep/in_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <variant>

#include "runtime/elementwise.h"
#include "runtime/half_precision.h"

namespace evenstep {
namespace {

constexpr std::int64_t most_sums_under_way = 256;
// Twice as many places: no rank comes to use one again before all have seen what was there.
constexpr std::size_t places = 2 * most_sums_under_way;

using Values = std::variant<std::span<float>, std::span<Bf16>, std::span<F16>>;

// One started sum: complete once all ranks have brought their values.
struct Sum {
  std::vector<Values> values;  // by rank
  int arrived = 0;
  std::int64_t end_ns = 0;

  bool done() const { return arrived == static_cast<int>(values.size()); }
};

}  // namespace

// A rank that starts a sum leaves its values there; the last one to come does the work for all.
struct InProcessWorld::State {
  explicit State(int ranks)
      : clocks(static_cast<std::size_t>(ranks)),
        sums(places),
        texts(static_cast<std::size_t>(ranks)) {
    for (Sum& sum : sums) sum.values.resize(clocks.size());
  }

  std::vector<ManualClock> clocks;
  std::mutex mutex;
  std::condition_variable arrival;
  std::vector<Sum> sums;  // the sum of number n is at n modulo the size
  std::int64_t link_free_ns = 0;
  std::int64_t link_ns_per_byte = 0;
  std::vector<std::string> texts;
  int arrived = 0;
  std::int64_t meetings = 0;
  bool aborted = false;

  Sum& sum(std::int64_t number) { return sums[static_cast<std::size_t>(number) % places]; }

  template <typename Work>
  void meet(Work&& work) {
    std::unique_lock lock(mutex);
    if (!aborted && ++arrived == static_cast<int>(clocks.size())) {
      work();
      arrived = 0;
      ++meetings;
      arrival.notify_all();
    } else {
      const std::int64_t now = meetings;
      arrival.wait(lock, [&] { return meetings != now || aborted; });
      if (meetings != now) return;
    }
    if (aborted) throw Error("another rank ended the job");
  }

  void bring(std::int64_t number, std::size_t rank, Values values) {
    const std::lock_guard lock(mutex);
    if (aborted) throw Error("another rank ended the job");
    Sum& mine = sum(number);
    if (mine.done()) mine.arrived = 0;
    if (mine.arrived == 0) mine.end_ns = 0;
    mine.values[rank] = values;
    mine.end_ns = std::max(mine.end_ns, clocks[rank].now_ns());
    if (++mine.arrived < static_cast<int>(clocks.size())) return;
    add_up(mine);
    arrival.notify_all();
  }
  // In rank order.
  template <typename Value>
  static std::size_t add_up(std::span<Values> ranks, std::span<Value> first) {
    for (const Values& values : ranks.subspan(1))
      add(std::span<const Value>(std::get<std::span<Value>>(values)), first);
    for (const Values& values : ranks.subspan(1))
      std::ranges::copy(first, std::get<std::span<Value>>(values).begin());
    return first.size_bytes();
  }
  void add_up(Sum& sum) {
    const std::size_t bytes =
        std::visit([&](auto first) { return add_up(sum.values, first); }, sum.values[0]);
    link_free_ns =
        std::max(link_free_ns, sum.end_ns) + static_cast<std::int64_t>(bytes) * link_ns_per_byte;
    sum.end_ns = link_free_ns;
  }
  void abort() {
    const std::lock_guard lock(mutex);
    aborted = true;
    arrival.notify_all();
  }
};

class InProcessWorld::Rank final : public Communicator {
 public:
  Rank(State& state, int rank) : state_(state), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(state_.clocks.size()); }
  const std::string& host() const override { return host_; }

  void start_sum(std::span<float> values) override { start(values); }
  void start_sum(std::span<Bf16> values) override { start(values); }
  void start_sum(std::span<F16> values) override { start(values); }
  bool progress() override {
    const std::lock_guard lock(state_.mutex);
    return ended_before(state_.clocks[static_cast<std::size_t>(rank_)].now_ns());
  }
  void wait() override {
    ManualClock& clock = state_.clocks[static_cast<std::size_t>(rank_)];
    std::unique_lock lock(state_.mutex);
    state_.arrival.wait(lock, [&] { return state_.aborted || ended_before(INT64_MAX); });
    if (ended_ < sum_calls_) throw Error("another rank ended the job");
    clock.set_ns(std::max(clock.now_ns(), last_end_ns_));
  }

  std::vector<std::string> gather(const std::string& mine) override {
    state_.texts[static_cast<std::size_t>(rank_)] = mine;
    std::vector<std::string> all;
    state_.meet([] {});
    all = state_.texts;
    state_.meet([] {});
    return all;
  }
  void abort(int /*exit_code*/) override { state_.abort(); }
  std::int64_t sum_calls() const override { return sum_calls_; }

 private:
  void start(Values values) {
    if (sum_calls_ - ended_ == most_sums_under_way)
      throw Error(fmt::format("more than {} sums are under way", most_sums_under_way));
    state_.bring(sum_calls_++, static_cast<std::size_t>(rank_), values);
  }

  // Whether all sums started so far had ended by `now`.
  bool ended_before(std::int64_t now) {
    for (; ended_ < sum_calls_ && state_.sum(ended_).done(); ++ended_) {
      if (state_.sum(ended_).end_ns > now) return false;
      last_end_ns_ = state_.sum(ended_).end_ns;
    }
    return ended_ == sum_calls_;
  }

  State& state_;
  int rank_;
  std::string host_ = "localhost";
  std::int64_t sum_calls_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t last_end_ns_ = 0;
};

InProcessWorld::InProcessWorld(int ranks) : state_(std::make_unique<State>(ranks)) {}
InProcessWorld::~InProcessWorld() = default;

std::unique_ptr<Communicator> InProcessWorld::communicator(int rank) {
  return std::make_unique<Rank>(*state_, rank);
}

ManualClock& InProcessWorld::clock(int rank) {
  return state_->clocks[static_cast<std::size_t>(rank)];
}

void InProcessWorld::set_link(std::int64_t ns_per_byte) { state_->link_ns_per_byte = ns_per_byte; }

void InProcessWorld::run(const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> failures(state_->clocks.size());
  std::vector<std::thread> threads;
  int first_failed = -1;
  std::mutex failed;
  for (std::size_t rank = 0; rank < failures.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(static_cast<int>(rank));
      } catch (...) {
        failures[rank] = std::current_exception();
        const std::lock_guard lock(failed);
        if (first_failed < 0) first_failed = static_cast<int>(rank);
        state_->abort();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first_failed >= 0) std::rethrow_exception(failures[static_cast<std::size_t>(first_failed)]);
}

}  // namespace evenstep
