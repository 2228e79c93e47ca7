#include "runtime/watchdog.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>

#include "runtime/host_exchange.h"

namespace evenstep {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr int in_all_reduce = phases;
constexpr int in_pause = phases + 1;
constexpr int state_bits = 8;
constexpr double least_tick_seconds = 0.02;
constexpr double most_tick_seconds = 1;
constexpr double ticks_a_stall = 8;
constexpr double ticks_until_asking = 2;
constexpr int silent_ticks = 4;  // without a count: stopped, or not heard of

// One rank in shared memory, alone in its cache line. Of ranks on other hosts: what was last heard.
struct alignas(64) Slot {
  std::atomic<std::int64_t> at{-1};  // step and state
  std::atomic<std::int64_t> count{0};
  std::atomic<bool> stopped{false};  // as its own host sees it
};

struct Place {
  std::int64_t step;
  int state;
};

Place place_of(std::int64_t at) {
  return {at >> state_bits, static_cast<int>(at & ((1 << state_bits) - 1))};
}

const char* name_of(int state) {
  if (state == in_all_reduce) return "all-reduce";
  return state == in_pause ? "evaluation or a pause" : name(static_cast<Phase>(state));
}

// Memory that the ranks of a host share. Its name is gone once all have it.
class SharedSlots {
 public:
  SharedSlots(Communicator& communicator, std::span<const std::string> hosts) {
    const std::size_t rank = static_cast<std::size_t>(communicator.rank());
    size_ = hosts.size() * sizeof(Slot);
    const auto first = std::ranges::find(hosts, hosts[rank]) - hosts.begin();
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    const std::string job = communicator.gather(fmt::format("{}-{}", getpid(), now))[0];
    const std::string path = fmt::format("/evenstep-{}-{}", job, first);
    const bool creates = static_cast<std::size_t>(first) == rank;
    if (creates) open(path, O_CREAT | O_EXCL | O_RDWR);
    communicator.gather({});
    if (!creates) open(path, O_RDWR);
    bool all = true;
    for (const std::string& got : communicator.gather(block_ != nullptr ? "1" : "0"))
      all = all && got == "1";
    if (creates) shm_unlink(path.c_str());
    if (!all) close();
  }
  ~SharedSlots() { close(); }
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;

  bool there() const { return block_ != nullptr; }
  Slot& operator[](std::size_t rank) const { return static_cast<Slot*>(block_)[rank]; }

 private:
  // New pages are zeros: a step below any, and no count.
  void open(const std::string& path, int flags) {
    const int file = shm_open(path.c_str(), flags, 0600);
    if (file < 0) return;
    if ((flags & O_CREAT) == 0 || ftruncate(file, static_cast<off_t>(size_)) == 0) {
      void* block = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (block != MAP_FAILED) block_ = block;
    }
    ::close(file);
  }
  void close() {
    if (block_ != nullptr) munmap(block_, size_);
    block_ = nullptr;
  }

  void* block_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace

class Watchdog::Watch {
 public:
  Watch(Communicator& communicator, std::span<const std::string> hosts, const StallOptions& options)
      : communicator_(communicator),
        rank_(static_cast<std::size_t>(communicator.rank())),
        hosts_(hosts.begin(), hosts.end()),
        options_(options),
        slots_(communicator, hosts),
        exchange_(communicator, hosts),
        seen_(hosts.size()) {
    places_.reserve(hosts.size());
    if (slots_.there())
      start();
    else if (rank_ == 0)
      fmt::print(stderr, "warning: no shared memory: ranks that stall will not be named\n");
  }
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void is_at(std::int64_t step, int state) {
    if (slots_.there())
      slots_[rank_].at.store(step << state_bits | state, std::memory_order_relaxed);
  }

 private:
  // Of a rank's count, as this rank saw it.
  struct Seen {
    std::int64_t count = 0;
    int silent_ticks = 0;
  };

  // Signals are for the threads that know of them.
  void start() {
    double shortest = most_tick_seconds * ticks_a_stall;
    for (const double limit : {options_.warn_seconds, options_.abort_seconds})
      if (limit > 0) shortest = std::min(shortest, limit);
    tick_ = Seconds(std::clamp(shortest / ticks_a_stall, least_tick_seconds, most_tick_seconds));
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    auto last = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, tick_, [this] { return stopped_; })) {
      const auto now = std::chrono::steady_clock::now();
      // While this process was stopped nobody was waited for.
      tick(std::min(Seconds(now - last), 2 * tick_));
      last = now;
    }
  }

  void tick(Seconds passed) {
    slots_[rank_].count.fetch_add(1, std::memory_order_relaxed);
    if (is_sender()) listen();
    for (std::size_t r = 0; r < seen_.size(); ++r) {
      const std::int64_t count = slots_[r].count.load(std::memory_order_relaxed);
      seen_[r].silent_ticks = count == seen_[r].count ? seen_[r].silent_ticks + 1 : 0;
      seen_[r].count = count;
    }
    const std::int64_t at = slots_[rank_].at.load(std::memory_order_relaxed);
    if (at != last_at_ || place_of(at).state != in_all_reduce) {
      last_at_ = at;
      waited_ = Seconds(0);
      warned_ = false;
      return;
    }
    waited_ += passed;
    if (is_sender() && waited_ >= ticks_until_asking * tick_) tell(true);
    if (!warned_ && options_.warn_seconds > 0 && waited_.count() >= options_.warn_seconds) warn();
    if (options_.abort_seconds > 0 && waited_.count() >= options_.abort_seconds) abort();
  }

  void listen() {
    const HostExchange::Received received = exchange_.receive();
    for (const RankPlace& place : received.places) {
      const auto rank = static_cast<std::size_t>(place.rank);
      if (is_here(rank)) continue;
      slots_[rank].at.store(place.at, std::memory_order_relaxed);
      slots_[rank].stopped.store(place.stopped != 0, std::memory_order_relaxed);
      slots_[rank].count.fetch_add(1, std::memory_order_relaxed);
    }
    if (received.asked) tell(false);
  }

  void tell(bool asks) {
    places_.clear();
    for (std::size_t r = 0; r < seen_.size(); ++r)
      if (is_here(r))
        places_.push_back({static_cast<std::int32_t>(r), is_stopped(r) ? 1 : 0,
                           slots_[r].at.load(std::memory_order_relaxed)});
    exchange_.send(places_, asks);
  }

  void warn() {
    warned_ = true;
    if (speaks()) fmt::print(stderr, "warning: {}\n", finding());
  }

  void abort() {
    if (!speaks()) return;
    fmt::print(stderr, "error: {}; the job ends (--stall-abort {})\n", finding(),
               options_.abort_seconds);
    std::fflush(stderr);
    communicator_.abort(1);
  }

  bool is_here(std::size_t rank) const { return hosts_[rank] == hosts_[rank_]; }
  // The first rank of its host whose process runs.
  bool is_sender() const {
    for (std::size_t r = 0; r < rank_; ++r)
      if (is_here(r) && !is_silent(r)) return false;
    return exchange_.can_send();
  }
  bool is_silent(std::size_t rank) const { return seen_[rank].silent_ticks >= silent_ticks; }
  bool is_stopped(std::size_t rank) const {
    return is_here(rank) ? is_silent(rank) : slots_[rank].stopped.load(std::memory_order_relaxed);
  }
  bool is_known(std::size_t rank) const {
    return is_here(rank) || (seen_[rank].count > 0 && !is_silent(rank));
  }
  Place place_of_rank(std::size_t rank) const {
    return place_of(slots_[rank].at.load(std::memory_order_relaxed));
  }
  // One may have left a step's all-reduce that another is still in: both wait.
  bool waits(std::size_t rank) const {
    return is_known(rank) && place_of_rank(rank).state == in_all_reduce && !is_stopped(rank);
  }
  bool is_late(std::size_t rank) const {
    return is_known(rank) &&
           (is_stopped(rank) || (place_of_rank(rank).state != in_all_reduce &&
                                 place_of_rank(rank).step <= place_of(last_at_).step));
  }

  // The lowest rank of those that are known to wait.
  bool speaks() const {
    for (std::size_t r = 0; r < rank_; ++r)
      if (waits(r)) return false;
    return true;
  }

  std::string late_ranks() const {
    std::string late;
    for (std::size_t r = 0; r < seen_.size(); ++r) {
      if (!is_late(r)) continue;
      const Place place = place_of_rank(r);
      late += fmt::format("{}rank {} on {} ({}last phase: {} of step {})", late.empty() ? "" : ", ",
                          r, hosts_[r], is_stopped(r) ? "stopped or dead; " : "",
                          name_of(place.state), place.step);
    }
    return late;
  }

  std::string silent_hosts() const {
    std::string silent;
    for (std::size_t r = 0; r < seen_.size(); ++r) {
      const bool first =
          std::ranges::find(hosts_, hosts_[r]) - hosts_.begin() == static_cast<std::ptrdiff_t>(r);
      if (!first || is_known(r)) continue;
      const auto ranks = std::ranges::count(hosts_, hosts_[r]);
      silent += fmt::format(
          "{}{} ({})", silent.empty() ? "ranks of a host that does not answer: " : ", ", hosts_[r],
          ranks == 1 ? fmt::format("rank {}", r)
                     : fmt::format("{} ranks, rank {} the first", ranks, r));
    }
    return silent;
  }

  std::string finding() const {
    std::string late = late_ranks();
    if (late.empty()) late = silent_hosts();
    if (late.empty()) late = "the network: all ranks are in the all-reduce";
    return fmt::format("step {}: waiting for {} since {:.1f} s", place_of(last_at_).step, late,
                       waited_.count());
  }

  Communicator& communicator_;
  std::size_t rank_;
  std::vector<std::string> hosts_;
  StallOptions options_;
  SharedSlots slots_;
  HostExchange exchange_;
  std::vector<RankPlace> places_;
  Seconds tick_{1};
  std::vector<Seen> seen_;
  std::int64_t last_at_ = -1;
  Seconds waited_{0};
  bool warned_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(Communicator& communicator, std::span<const std::string> hosts,
                   const StallOptions& options) {
  if (options.warn_seconds > 0 || options.abort_seconds > 0)
    watch_ = std::make_unique<Watch>(communicator, hosts, options);
}
Watchdog::~Watchdog() = default;

void Watchdog::computes(std::int64_t step, Phase phase) {
  if (watch_) watch_->is_at(step, static_cast<int>(phase));
}
void Watchdog::waits(std::int64_t step) {
  if (watch_) watch_->is_at(step, in_all_reduce);
}
void Watchdog::pauses(std::int64_t step) {
  if (watch_) watch_->is_at(step, in_pause);
}

}  // namespace evenstep
