// One contiguous, aligned block for everything a step's all-reduce carries: the gradients, in the
// order in which backward fills them, and behind them the tail.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/huge_pages.h"

namespace evenstep {

class GradientArena {
 public:
  GradientArena(std::size_t gradients, std::size_t tail)
      : gradients_(gradients), block_(gradients + tail) {}

  std::span<float> gradients() { return all().first(gradients_); }
  std::span<float> tail() { return all().subspan(gradients_); }
  std::span<float> all() { return block_; }

 private:
  std::size_t gradients_;
  std::vector<float, HugePageAllocator<float>> block_;
};

}  // namespace evenstep
