// Finds the fastest of several ways to run a step by trying them in turn in the first steps. Fed
// with times that all ranks know, it decides the same on all ranks.
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
  /// Median over the trials of the time of the settled way over that of way 0.
  double ratio() const { return ratio_; }

  /// A step has ended; `seconds`: the time of the step before it, known only now.
  void end_step(double seconds);

 private:
  std::size_t scheduled_way(std::size_t step) const;
  void settle();

  std::size_t ways_;
  std::size_t way_ = 0;
  bool settled_;
  double ratio_ = 1;
  std::size_t ended_ = 0;
  std::vector<double> seconds_;  // by trial round and way
};

}  // namespace evenstep
