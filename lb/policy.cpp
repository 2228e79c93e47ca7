#include "lb/policy.h"

#include <algorithm>

namespace evenstep::lb {
namespace {

constexpr double dead_band = 0.02;
constexpr double dead_band_errors = 6;
constexpr int trial_steps = 10;
constexpr double trial_margin = 1.02;
constexpr int early_trial_steps = 3;  // enough to see that a partition is much worse
constexpr double early_trial_margin = 1.10;
constexpr int mean_memory_steps = 20;
constexpr int resize_echo_steps = 3;   // a change that began this soon may come from the re-size
constexpr double trial_change = 0.30;  // a lesser one on trial may come from it, seen late
constexpr int long_ago = 1000;
constexpr int most_unfinished_trials = 4;
constexpr int longest_pause = 1280;

}  // namespace

const char* name(Decision decision) {
  switch (decision) {
    case Decision::keep:
      return "keep";
    case Decision::adopt:
      return "adopt";
    case Decision::return_to_best:
      return "return";
  }
  return "?";
}

void Policy::Measured::add(Nanoseconds step_ns) {
  steps = std::min(steps + 1, mean_memory_steps);
  mean_ns += (static_cast<double>(step_ns) - mean_ns) / steps;
}

Policy::Policy(std::span<const Samples> first_partition, int lag)
    : lag_(lag),
      best_(first_partition.begin(), first_partition.end()),
      current_(first_partition.begin(), first_partition.end()) {}

void Policy::measure(Nanoseconds step_ns) {
  steps_since_resize_ = std::min(steps_since_resize_ + 1, long_ago);
  if (steps_since_resize_ <= lag_) return;
  steps_.add(step_ns);
  if (!on_trial_) best_steps_ = steps_;
}

void Policy::speeds_changed(int steps_ago, double by) {
  if (steps_since_resize_ + 1 - steps_ago < resize_echo_steps) return;
  if (on_trial_ && by < trial_change) return;
  steps_ = {};
  failed_mean_ns_ = 0;
  finish_trial();
  pause_ = 0;
}

// current_ becomes the best one known.
void Policy::finish_trial() {
  std::ranges::copy(current_, best_.begin());
  best_steps_ = steps_;
  on_trial_ = false;
  unfinished_trials_ = 0;
  next_pause_ = first_pause;
}

bool Policy::trial_failed() const {
  if (best_steps_.steps == 0) return false;
  return (steps_.steps >= early_trial_steps &&
          steps_.mean_ns > early_trial_margin * best_steps_.mean_ns) ||
         (steps_.steps >= trial_steps && steps_.mean_ns > trial_margin * best_steps_.mean_ns);
}

bool Policy::gains(const Proposal& proposal) const {
  const double band = std::max(dead_band, dead_band_errors * proposal.relative_error);
  return static_cast<double>(proposal.proposed_ns) * (1 + band) <
         static_cast<double>(proposal.current_ns);
}

Decision Policy::decide(const Proposal* proposal) {
  if (on_trial_ && trial_failed()) {
    failed_mean_ns_ = steps_.mean_ns;
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, longest_pause);
    return Decision::return_to_best;
  }
  if (on_trial_ && steps_.steps >= trial_steps) finish_trial();
  // Back at the best partition and it is no better than what it was preferred to: times changed.
  if (failed_mean_ns_ > 0 && steps_.steps >= early_trial_steps) {
    if (steps_.mean_ns > failed_mean_ns_) pause_ = 0;
    failed_mean_ns_ = 0;
  }
  if (pause_ > 0) {
    --pause_;
    return Decision::keep;
  }
  const bool must_finish_trial = on_trial_ && unfinished_trials_ >= most_unfinished_trials;
  if (proposal == nullptr || must_finish_trial || !gains(*proposal)) return Decision::keep;
  return Decision::adopt;
}

void Policy::adopted(std::span<const Samples> partition) {
  std::ranges::copy(partition, current_.begin());
  on_trial_ = !std::ranges::equal(current_, best_);
  unfinished_trials_ = on_trial_ ? unfinished_trials_ + 1 : 0;
  steps_ = {};
  steps_since_resize_ = 0;
}

}  // namespace evenstep::lb
