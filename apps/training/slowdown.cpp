#include "training/slowdown.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "evenstep/clock.h"
#include "runtime/cpu_time.h"

namespace evenstep::train {
namespace {

// A sleep that was too long shortens the next ones by no more than the timer's slack: a rank that
// lost its core for longer has really lost that time.
constexpr std::int64_t most_credit_ns = 1'000'000;

void sleep_ns(std::int64_t duration) {
  const timespec time{duration / 1'000'000'000, duration % 1'000'000'000};
  nanosleep(&time, nullptr);
}

}  // namespace

Slowdown::Slowdown(const Options& options, int rank, std::function<std::int64_t()> loader_cpu_ns)
    : loader_cpu_ns_(std::move(loader_cpu_ns)) {
  if (!options.emulate.empty())
    sleep_per_cpu_ = 1 / options.emulate[static_cast<std::size_t>(rank)] - 1;
  for (const Injection& injection : options.injections)
    if (injection.rank == rank) injections_.push_back(injection);
}

std::int64_t Slowdown::cpu_ns() const { return process_cpu_ns() - loader_cpu_ns_(); }

void Slowdown::begin_chunk() {
  if (sleep_per_cpu_ > 0) cpu_start_ns_ = cpu_ns();
}

void Slowdown::pause() {
  if (sleep_per_cpu_ > 0) cpu_pause_ns_ = cpu_ns();
}

void Slowdown::resume() {
  if (sleep_per_cpu_ > 0) cpu_start_ns_ += cpu_ns() - cpu_pause_ns_;
}

void Slowdown::end_chunk() {
  if (sleep_per_cpu_ == 0) return;
  const std::int64_t spent_ns = cpu_ns() - cpu_start_ns_;
  owed_ns_ += static_cast<std::int64_t>(sleep_per_cpu_ * static_cast<double>(spent_ns));
  if (owed_ns_ <= 0) return;
  const std::int64_t start = steady_clock().now_ns();
  sleep_ns(owed_ns_);
  owed_ns_ = std::max(owed_ns_ - (steady_clock().now_ns() - start), -most_credit_ns);
}

void Slowdown::inject(Phase phase, std::int64_t step) const {
  for (const Injection& injection : injections_)
    if (injection.phase == static_cast<int>(phase) && step >= injection.first_step &&
        step <= injection.last_step)
      sleep_ns(injection.delay_ns);
}

}  // namespace evenstep::train
