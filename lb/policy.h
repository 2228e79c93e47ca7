// Whether a proposal is worth adopting. Used by sizers that foresee costs; first version.
//
//  * A proposal must be foreseen to gain more than a dead band: 2 %, or six standard errors of the
//    forecast, so that noise among equal ranks moves nothing.
//  * A new partition is on trial. If its measured steps turn out longer than the best partition's,
//    the best one comes back, and proposals pause for longer each time that happens.
//  * When a rank's speed changes for good, what was measured before no longer counts; other than
//    just after a re-size, or by a little during a trial: that may be the new share's doing.
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

  /// Takes the length of a step at the partition in force: the longest own time.
  void measure(Nanoseconds step_ns);
  /// A rank's speed changed for good. `steps_ago`: 1 if the next step to measure is the first at
  /// the new speed, 2 if it is the second... `by`: relative change of the cost, not negative.
  void speeds_changed(int steps_ago, double by);

  struct Proposal {
    Nanoseconds current_ns;   ///< foreseen for the partition in force
    Nanoseconds proposed_ns;  ///< foreseen for the proposal
    double relative_error;    ///< standard error of current_ns
  };
  /// Decides on the next step. `proposal` is null where there is none. If it says adopt, call
  /// adopted(); if return_to_best, go back to best().
  Decision decide(const Proposal* proposal);
  std::span<const Samples> best() const { return best_; }
  void adopted(std::span<const Samples> partition);

 private:
  bool trial_failed() const;
  void finish_trial();
  bool gains(const Proposal& proposal) const;

  // Mean step length at one partition.
  struct Measured {
    double mean_ns = 0;
    int steps = 0;
    void add(Nanoseconds step_ns);
  };

  int lag_;
  std::vector<Samples> best_;
  std::vector<Samples> current_;
  Measured best_steps_;
  Measured steps_;         // of current_
  bool on_trial_ = false;  // current_ is not best_
  int steps_since_resize_ = 0;
  int unfinished_trials_ = 0;  // adoptions since one was tried to its end
  int pause_ = 0;              // steps without proposals
  int next_pause_ = first_pause;
  double failed_mean_ns_ = 0;  // of the trial that led back to best_; 0: none

  static constexpr int first_pause = 20;
};

}  // namespace evenstep::lb
