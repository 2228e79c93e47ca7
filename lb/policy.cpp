#include "lb/policy.h"

#include <algorithm>

namespace evenstep::lb {
namespace {

constexpr double first_dead_band = 0.02;
constexpr double first_dead_band_errors = 5;
constexpr double dead_band = 0.003;
constexpr double dead_band_errors = 1;
constexpr double signal_dead_band = 0.002;
constexpr double near_fraction = 0.05;  // of the batch: moves of less are near
constexpr double foreseen_margin = 1.05;
constexpr int early_trial_steps = 3;  // enough to see that steps are as foreseen, or much worse
constexpr double early_trial_margin = 1.10;
constexpr int trial_steps = 6;
constexpr double trial_margin = 1.02;
constexpr int mean_memory_steps = 20;
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

void Policy::Mean::add(double reading) {
  steps = std::min(steps + 1, mean_memory_steps);
  value += (reading - value) / steps;
}

Policy::Policy(std::span<const Samples> first_partition, int lag)
    : lag_(lag),
      home_(first_partition.begin(), first_partition.end()),
      best_(home_),
      current_(home_),
      anchor_(home_) {}

void Policy::measure(Nanoseconds step_ns) {
  steps_since_move_ = std::min(steps_since_move_ + 1, longest_pause);
  if (steps_since_move_ <= lag_) return;
  const auto length = static_cast<double>(step_ns);
  step_ns_.add(length);
  if (!on_trial_) best_ns_ = step_ns_;
  if (foreseen_ns_ > 0)
    (on_trial_ ? trial_ratio_ : usual_ratio_).add(length / static_cast<double>(foreseen_ns_));
}

void Policy::speeds_change(bool for_good) {
  news_ = true;
  if (!for_good) return;
  step_ns_ = {};
  failed_mean_ns_ = 0;
  finish_trial();
  pause_ = 0;
}

// current_ becomes the best one known.
void Policy::finish_trial() {
  std::ranges::copy(current_, best_.begin());
  best_ns_ = step_ns_;
  on_trial_ = false;
  next_pause_ = first_pause;
}

Decision Policy::give_up_trial() {
  failed_mean_ns_ = step_ns_.value;
  proposed_ns_ = 0;  // nothing is foreseen of best_ until the next decision
  pause_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, longest_pause);
  return Decision::return_to_best;
}

bool Policy::as_foreseen() const {
  const double usual = usual_ratio_.steps > 0 ? usual_ratio_.value : 1;
  return trial_ratio_.steps >= early_trial_steps && trial_ratio_.value <= foreseen_margin * usual;
}

bool Policy::trial_failed() const {
  if (best_ns_.steps == 0) return false;
  const double worse = step_ns_.value / best_ns_.value;
  return (step_ns_.steps >= early_trial_steps && worse > early_trial_margin) ||
         (step_ns_.steps >= trial_steps && worse > trial_margin);
}

bool Policy::gains(const Proposal& proposal) const {
  const double band =
      !moved_ ? std::max(first_dead_band, first_dead_band_errors * proposal.relative_error)
      : proposal.follows_signal ? signal_dead_band
                                : std::max(dead_band, dead_band_errors * proposal.relative_error);
  return static_cast<double>(proposal.proposed_ns) * (1 + band) <
         static_cast<double>(proposal.current_ns);
}

Decision Policy::decide(const Proposal* proposal) {
  const bool news = news_;
  news_ = false;
  if (on_trial_ && !as_foreseen() && trial_failed()) return give_up_trial();
  if (on_trial_ && (as_foreseen() || step_ns_.steps >= trial_steps)) finish_trial();
  // Back at the best partition and it is no better than what it was preferred to: times changed.
  if (failed_mean_ns_ > 0 && step_ns_.steps >= early_trial_steps) {
    if (step_ns_.value > failed_mean_ns_) pause_ = 0;
    failed_mean_ns_ = 0;
  }
  if (proposal != nullptr && !on_trial_) foreseen_ns_ = proposal->current_ns;
  if (pause_ > 0) --pause_;
  const bool wait = pause_ > 0 || (on_trial_ && !news);
  if (proposal == nullptr || wait || !gains(*proposal)) return Decision::keep;
  proposed_ns_ = proposal->proposed_ns;
  follows_signal_ = proposal->follows_signal;
  return Decision::adopt;
}

bool Policy::is_near(std::span<const Samples> partition) const {
  Samples moved = 0;
  Samples batch = 0;
  for (std::size_t r = 0; r < partition.size(); ++r) {
    moved += std::max<Samples>(0, partition[r] - anchor_[r]);
    batch += partition[r];
  }
  return static_cast<double>(moved) <= near_fraction * static_cast<double>(batch);
}

void Policy::adopted(std::span<const Samples> partition) {
  const bool first_move = !moved_;
  std::ranges::copy(partition, current_.begin());
  moved_ = !std::ranges::equal(current_, home_);
  foreseen_ns_ = proposed_ns_;
  // Where costs follow a signal, partitions go far in every step, and no two steps compare.
  if (!first_move && !on_trial_ && (follows_signal_ || is_near(partition))) {
    std::ranges::copy(partition, best_.begin());
    return;
  }
  std::ranges::copy(partition, anchor_.begin());
  on_trial_ = !std::ranges::equal(current_, best_);
  step_ns_ = {};
  trial_ratio_ = {};
  steps_since_move_ = 0;
}

}  // namespace evenstep::lb
