// Costs of ranks from the log of a real run (evenstep-train --log), balanced or not.
//
// The log is cut into windows of 50 steps. Where a rank's share varied enough in a window, a
// straight line through its times over its shares tells its fixed cost and its cost per sample
// apart. Elsewhere only the time at the rank's mean share is known, and how it splits is taken
// from the rank's other windows; where none of them tells, it is a matter of belief: see Split.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lb/trace.h"

namespace evenstep::sim {

/// What is believed of a rank whose fixed cost cannot be told from its cost per sample.
enum class Split {
  all_per_sample,  ///< no fixed cost: a smaller share helps as much as it can
  half_fixed,      ///< half of the time at its mean share is fixed
};

class RunLog {
 public:
  /// Throws Error with file and line for what cannot be read.
  explicit RunLog(const std::string& path);

  int ranks() const { return static_cast<int>(windows_.front().size()); }
  std::int64_t steps() const { return steps_; }
  /// The largest step's samples.
  std::int64_t global_batch() const { return global_batch_; }
  /// How far times scatter around the fit: the median over windows and ranks.
  double noise() const;
  /// Ranks whose costs no window tells apart.
  int ranks_unknown() const;
  std::unique_ptr<lb::Trace> trace(Split split) const;

 private:
  // One rank's steps in one window.
  struct Sums {
    double steps = 0;
    double share = 0;
    double seconds = 0;
    double share_squared = 0;
    double share_seconds = 0;
    double seconds_squared = 0;
    double pairs = 0;             // of successive steps with equal shares
    double pair_differences = 0;  // relative, without sign
  };
  struct Fit {
    double share = 0;          // mean; 0: no samples in the whole window
    double seconds = 0;        // mean
    double scatter = -1;       // relative; below 0: not known
    double weight = 0;         // of fixed_samples; 0: cannot be told
    double fixed_samples = 0;  // samples that take as long as the fixed cost
  };
  class Windows;
  static Fit fit(const Sums& sums);
  void add_step(const std::vector<double>& shares, const std::vector<double>& seconds);
  void close_window();
  void fill_gaps(const std::string& path);
  double fixed_samples(std::size_t rank, Split split) const;

  std::int64_t steps_ = 0;
  std::int64_t global_batch_ = 0;
  std::vector<Sums> open_;
  std::vector<double> shares_before_;
  std::vector<double> seconds_before_;
  std::vector<std::vector<Fit>> windows_;  // by window and rank
};

}  // namespace evenstep::sim
