#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

#include "evenstep/availability.h"
#include "evenstep/clock.h"
#include "runtime/availability.h"
#include "runtime/cpu_time.h"
#include "runtime/probe.h"
#include "runtime/system_text.h"

namespace evenstep {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds interval{100};
// Between the two readings compared: at least two of the usual 100 ms periods of CPU quotas.
constexpr std::size_t window_intervals = 2;
constexpr std::size_t memory_intervals = 10;  // it changes slowly, and takes longest to read

// Over all threads of this process.
std::optional<std::int64_t> process_ready_ns() {
  std::optional<std::int64_t> sum;
  std::error_code error;
  fs::directory_iterator thread("/proc/self/task", error);
  for (; !error && thread != fs::directory_iterator(); thread.increment(error))
    if (const auto ready = ready_ns(text_of(thread->path() / "schedstat")))
      sum = sum.value_or(0) + *ready;
  return sum;
}

// The signals of a process are for those who wait for them.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

struct AvailabilityProbe::State {
  explicit State(int threads_) : threads(threads_), cores(allowed_cores()) {
    try_to_look();
    thread = std::thread([this] { run(); });
  }
  ~State() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    end.notify_all();
    thread.join();
  }

  void run() {
    block_signals();
    std::unique_lock lock(mutex);
    while (!end.wait_for(lock, interval, [this] { return ending; })) try_to_look();
  }

  // Nothing that goes wrong here is worth a job.
  void try_to_look() {
    try {
      look();
    } catch (const std::exception&) {
      cpu_cores = memory_mib = 0;
    }
  }

  void look() {
    const CpuReading now = read();
    const std::size_t kept = std::min(looks, window_intervals);
    if (kept > 0) {
      const CpuReading& before = readings[(looks - kept) % window_intervals];
      cpu_cores = available_cores(before, now, static_cast<int>(cores.size()), threads);
    }
    if (looks % memory_intervals == 0)
      memory_mib = available_mebibytes(text_of("/proc/meminfo"), groups.free_bytes());
    readings[looks++ % window_intervals] = now;
  }

  CpuReading read() const {
    const std::int64_t tick_ns = 1'000'000'000 / sysconf(_SC_CLK_TCK);
    CpuReading now;
    now.time_ns = steady_clock().now_ns();
    now.own_ns = process_cpu_ns();
    now.ready_ns = process_ready_ns();
    if (const auto ticks = busy_ticks(text_of("/proc/stat"), cores)) now.busy_ns = *ticks * tick_ns;
    now.groups = groups.cpu();
    return now;
  }

  int threads;
  std::vector<int> cores;
  ControlGroups groups;
  std::array<CpuReading, window_intervals> readings;  // a ring
  std::size_t looks = 0;
  std::atomic<double> cpu_cores = 0;
  std::atomic<double> memory_mib = 0;
  static_assert(std::atomic<double>::is_always_lock_free);

  std::mutex mutex;
  std::condition_variable end;
  bool ending = false;
  std::thread thread;
};

AvailabilityProbe::AvailabilityProbe(int threads) : state_(std::make_unique<State>(threads)) {}
AvailabilityProbe::~AvailabilityProbe() = default;
double AvailabilityProbe::cpu_cores() const { return state_->cpu_cores; }
double AvailabilityProbe::memory_mib() const { return state_->memory_mib; }

}  // namespace evenstep
