// What a run's steps add up to, from what every rank knows of all others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenstep/session.h"

namespace evenstep::train {

/// Kept by every rank alike; seconds() and the like are of this rank's clock.
class Statistics {
 public:
  /// `expected_steps` of the whole run; `ranks` of the job.
  Statistics(std::int64_t expected_steps, int ranks);

  /// After each step.
  void add(const Session& session, std::int64_t batch);

  std::int64_t steps() const { return steps_; }
  std::int64_t samples() const { return samples_; }
  /// Without the first 10 steps, or the first third of a run under 30.
  double samples_per_second() const;
  /// Mean over the steps (but the cold first one) of mean own time over longest own time.
  double load_balance() const;
  /// By rank: mean own seconds and mean samples of a step.
  std::vector<double> own_seconds() const;
  std::vector<double> mean_share() const;
  /// This rank's mean seconds a step, by Phase, and in the collective.
  double phase_seconds(Phase phase) const;
  double wait_seconds() const;
  double last_step_seconds() const { return last_step_seconds_; }
  double last_load_balance() const { return last_load_balance_; }

 private:
  double per_step(std::int64_t total_ns) const;

  std::int64_t skip_;
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t counted_samples_ = 0;
  std::int64_t counted_ns_ = 0;
  double load_balance_sum_ = 0;
  double last_load_balance_ = 0;
  double last_step_seconds_ = 0;
  std::vector<std::int64_t> own_ns_;
  std::vector<std::int64_t> shares_;
  std::int64_t phase_ns_[phases] = {};
  std::int64_t wait_ns_ = 0;
};

}  // namespace evenstep::train
