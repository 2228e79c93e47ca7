// Whether a proposal is worth adopting. Used by sizers that foresee costs.
//
//  * The first move, and each far one, is on trial until its steps turn out as long as foreseen; no
//    other follows till then. If they turn out longer, and longer than the best partition's were,
//    the best one comes back, and proposals pause for longer each time that happens. Where
//    forecasts hold, this costs nothing.
//  * When a rank's speed changes for good, and not by its new share, what was measured before no
//    longer counts.
#pragma once

#include <span>
#include <vector>

#include "lb/units.h"

namespace evenstep::lb {

enum class Decision { keep, adopt, return_to_best };

/// "keep", "adopt" or "return", as in logs.
const char* name(Decision decision);

class Policy {
 public:
  /// `lag`: steps between a decision and the first step it steers, less one.
  Policy(std::span<const Samples> first_partition, int lag);

  /// Takes the length of a step at the partition in force: the longest own
  /// time.
  void measure(Nanoseconds step_ns);
  /// A rank's speed seems to change, or has (`for_good`), and not because its share did.
  void speeds_change(bool for_good);

  struct Proposal {
    Nanoseconds current_ns;   ///< foreseen for the partition in force
    Nanoseconds proposed_ns;  ///< foreseen for the proposal
    double relative_error;    ///< standard error of current_ns
    bool follows_signal;      ///< costs follow a signal seen anew before each step
  };
  /// Decides on the next step. `proposal` is null where there is none. If it
  /// says adopt, call adopted(); if return_to_best, go back to best().
  Decision decide(const Proposal* proposal);
  std::span<const Samples> best() const { return best_; }
  void adopted(std::span<const Samples> partition);

 private:
  bool as_foreseen() const;
  bool trial_failed() const;
  void finish_trial();
  Decision give_up_trial();
  bool gains(const Proposal& proposal) const;
  bool is_near(std::span<const Samples> partition) const;

  // Mean over steps at one partition.
  struct Mean {
    double value = 0;
    int steps = 0;
    void add(double reading);
  };

  int lag_;
  std::vector<Samples> home_;  // the first partition
  std::vector<Samples> best_;
  std::vector<Samples> current_;
  std::vector<Samples> anchor_;  // of the last far move
  Mean best_ns_;
  Mean step_ns_;      // since the last far move
  Mean trial_ratio_;  // measured over foreseen, on trial
  Mean usual_ratio_;  // likewise, where nothing is on trial: above 1 by the noise of many
  Nanoseconds foreseen_ns_ = 0;  // for current_
  Nanoseconds proposed_ns_ = 0;  // foreseen for the proposal adopted last
  bool moved_ = false;           // away from home_
  bool follows_signal_ = false;
  bool on_trial_ = false;
  bool news_ = false;         // in this step, of speeds
  int steps_since_move_ = 0;  // a far one
  int pause_ = 0;             // steps without proposals
  int next_pause_ = first_pause;
  double failed_mean_ns_ = 0;  // of the trial that led back to best_; 0: none

  static constexpr int first_pause = 20;
};

}  // namespace evenstep::lb
