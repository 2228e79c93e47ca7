#include "evenstep/in_process.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace evenstep {

// All ranks meet at one barrier for each collective; the last to arrive does the work for all.
struct InProcessWorld::State {
  explicit State(int ranks)
      : clocks(static_cast<std::size_t>(ranks)),
        spans(static_cast<std::size_t>(ranks)),
        texts(static_cast<std::size_t>(ranks)) {}

  std::vector<ManualClock> clocks;
  std::mutex mutex;
  std::condition_variable arrival;
  std::vector<std::span<float>> spans;
  std::vector<std::string> texts;
  std::vector<float> total;
  int arrived = 0;
  std::int64_t meetings = 0;
  bool aborted = false;

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

  void sum_spans() {
    total.assign(spans[0].begin(), spans[0].end());
    for (std::size_t r = 1; r < spans.size(); ++r)
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += spans[r][i];
    for (auto& span : spans) std::ranges::copy(total, span.begin());
  }
  void align_clocks() {
    std::int64_t latest = 0;
    for (const ManualClock& clock : clocks) latest = std::max(latest, clock.now_ns());
    for (ManualClock& clock : clocks) clock.set_ns(latest);
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

  void start_sum(std::span<float> values) override {
    ++sum_calls_;
    state_.spans[static_cast<std::size_t>(rank_)] = values;
    state_.meet([this] {
      state_.sum_spans();
      state_.align_clocks();
    });
  }
  bool progress() override { return true; }
  void wait() override {}

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
  State& state_;
  int rank_;
  std::string host_ = "localhost";
  std::int64_t sum_calls_ = 0;
};

InProcessWorld::InProcessWorld(int ranks) : state_(std::make_unique<State>(ranks)) {}
InProcessWorld::~InProcessWorld() = default;

std::unique_ptr<Communicator> InProcessWorld::communicator(int rank) {
  return std::make_unique<Rank>(*state_, rank);
}

ManualClock& InProcessWorld::clock(int rank) {
  return state_->clocks[static_cast<std::size_t>(rank)];
}

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
