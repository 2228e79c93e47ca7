// The cost of one rank, learned online from its own times.
//
// First version: one number, the time per unit of w(b), and how much it scatters. A time that is
// off by more than the gate is a surprise. A lone one (a spike) is dropped; the second in a row in
// the same direction is a lasting change, and the model starts anew from the two. A rank whose
// changes do not last must show more in a row next time. A drift (all readings of late on one side)
// and another share shorten the memory: what is long past says less.
#pragma once

#include "lb/cost.h"

namespace evenstep::lb {

class CostModel {
 public:
  enum class News { none, surprise, changed };

  /// Takes one step of `own_ns` at `units` (SizeTable::units of the share, above 0).
  News observe(Nanoseconds own_ns, std::int64_t units);

  /// Steps the current estimate rests on; below 2 it is not to be trusted.
  int observations() const { return observations_; }
  /// The forecast; per_sample_ps is 0 where nothing was observed.
  Cost cost() const;
  /// Standard error of the forecast, relative to it.
  double relative_error() const;

 private:
  void start_from(double rate, int observations);
  void end_surprise(double gate);
  void scatter(double off);
  void follow(double rate, double off, double units);
  bool is_other_share(double units);
  bool is_drift(double off);

  double rate_ = 0;                                      // ns per unit
  double variance_ = first_deviation * first_deviation;  // of a single reading, relative
  int scatter_readings_ = 4;                             // that variance_ rests on
  double surprise_rate_ = 0;                             // mean of the surprises in a row so far
  double units_ = 0;                                     // of the last share that was another
  int observations_ = 0;
  int surprises_ = 0;    // in a row, in one direction
  int patience_ = 2;     // surprises that make a lasting change
  int quiet_steps_ = 0;  // since the last change, or since patience_ was halved
  int side_ = 0;         // of the last reading: above the estimate 1, below -1, about there 0
  int steps_on_side_ = 0;

  static constexpr double first_deviation = 0.05;  // assumed until readings tell
};

}  // namespace evenstep::lb
