// The cost of one rank, learned online from its own times: t = fixed + rate
// w(b).
//
// The rate is followed; four things can happen to it, and each is told apart
// from plain noise.
//  * It drifts. A local linear trend is followed (Holt 1957), with a memory as
//  long as the forecast
//    errors allow: errors in a row on one side shorten it, alternating ones
//    lengthen it.
//  * It shifts. A reading off by more than the gate is a surprise. The second
//  in a row in the same
//    direction is a lasting change: the model starts anew from the two. After
//    the first, the rank is sized by the slower of what it was and what it
//    seems to be, if surprises tended to last.
//  * It spikes. A lone surprise is dropped.
//  * It flaps, as under a CPU quota. A rank that falls back soon after it
//  recovered must stay fast
//    for longer until it is believed again; till then it is sized by its slow
//    speed.
// The fixed part is learned where the share changes by a fifth or more, and never else.
#pragma once

#include "lb/cost.h"
#include "lb/surprises.h"

namespace evenstep::lb {

class CostModel {
 public:
  /// Seems: a surprise that may pass. Is: a change for good.
  enum class News { none, seems_slower, seems_faster, is_slower, is_faster };

  /// Takes one step of `own_ns` (above 0) at `units` (SizeTable::units of the
  /// share, above 0).
  News observe(Nanoseconds own_ns, std::int64_t units, Surprises& surprises);

  /// Steps the current estimate rests on, up to 100; below 2 it is not to be
  /// trusted.
  int observations() const { return observations_; }
  /// The forecast for the next step; all zero where nothing was observed.
  Cost cost(const Surprises& surprises) const;
  /// Standard error of the forecast, relative to it.
  double relative_error() const;
  /// By how much single steps scatter about it, likewise.
  double deviation() const;
  /// Standard error of deviation().
  double deviation_error() const;
  /// How far off the forecast is for a step of `own_ns` at `units`, relative to
  /// the forecast.
  double forecast_error(Nanoseconds own_ns, std::int64_t units) const;
  /// A reading off by more than this, relative to the forecast, is a surprise.
  double gate() const;

 private:
  double forecast() const { return rate_ * (1 + trend_); }
  void learn_fixed(double time, double size);
  void count_steps(Surprises& surprises);
  News take_surprise(double rate, bool slower, Surprises& surprises);
  void remember_good_rate();
  bool is_good_again() const;
  bool is_lapse();
  void end_surprises(double gate, Surprises& surprises);
  void relapsed(int fast_steps, Surprises& surprises);
  void follow(double rate, double off);
  void scatter(double off);
  void start_from(double rate, int observations);

  double fixed_ = 0;          // ns
  double fixed_doubt_ = 0.1;  // its standard error, relative to the step
  double rate_ = 0;           // ns per unit
  double trend_ = 0;          // relative change a step
  double gain_ = 0.05;        // weight of a new reading, once there are many
  double variance_ = 0.0025;  // of forecast errors, relative; assumed until readings tell
  int scatter_readings_ = 4;  // that variance_ rests on
  double last_off_ = 0;       // forecast error of the last step
  double last_size_ = 0;      // units of the last step
  int observations_ = 0;

  double surprise_rate_ = 0;                  // mean of the surprises in a row so far
  int surprises_ = 0;                         // in a row, in one direction
  double surprise_size_ = 0;                  // of the first of them
  double good_rate_ = 0;                      // before the last fall; 0: none yet
  double good_size_ = 0;                      // at which it was seen
  bool lapsed_ = false;                       // the last step was a lapse of a recovery
  int patience_ = Surprises::least_patience;  // fast readings until this rank's
                                              // recovery is believed
  int recovery_steps_ = 0;  // fast readings that it took to believe the last recovery; 0: none yet
  int steps_since_fall_ = longest_count;
  int steps_since_recovery_ = longest_count;

  static constexpr int longest_count = 1 << 20;
};

}  // namespace evenstep::lb
