// Finds the fastest of several ways to run a step by trying them in turn in the first steps: all of
// them a few times, then the best of these often enough to be sure. Fed with times that all ranks
// know, it decides the same on all ranks.
#pragma once

#include <cstddef>
#include <vector>

namespace evenstep {

class Tuner {
 public:
  /// `ways` to choose from, at least 1. Way 0 is kept unless another is faster beyond doubt.
  explicit Tuner(std::size_t ways);

  /// The way of the step that comes next.
  std::size_t way() const { return way_; }
  /// Whether it will not change any more.
  bool settled() const { return settled_; }
  /// Median over the last trials of the time of the settled way over that of way 0.
  double ratio() const { return ratio_; }

  /// A step has ended; `seconds`: the time of the step before it, known only now.
  void end_step(double seconds);

 private:
  // Each round tries all open ways within a few steps, so that what drifts is the same for all.
  struct Trials {
    std::size_t first_step = 0;
    std::size_t rounds = 0;
    std::vector<double> seconds = {};  // by round and open way
  };

  void begin_trials(std::size_t first_step, std::size_t rounds);
  void end_trials();
  std::size_t scheduled(std::size_t step) const;
  double ratio_at(std::size_t open, std::size_t place) const;
  double median_ratio(std::size_t open) const { return ratio_at(open, trials_.rounds / 2); }
  void keep_best();
  void settle();

  std::vector<std::size_t> open_;   // ways, the first of them is 0
  std::vector<std::size_t> order_;  // of the open ones
  Trials trials_;
  std::size_t way_ = 0;
  bool settled_;
  double ratio_ = 1;
  std::size_t ended_ = 0;
};

}  // namespace evenstep
