// One contiguous, aligned block for everything a step's all-reduce carries: the gradients, in the
// order in which backward fills them, and behind them the tail.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace evenstep {

class GradientArena {
 public:
  GradientArena(std::size_t gradients, std::size_t tail)
      : gradients_(gradients), size_(gradients + tail), block_(allocate(size_)) {}

  std::span<float> gradients() { return {block_.get(), gradients_}; }
  std::span<float> tail() { return all().subspan(gradients_); }
  std::span<float> all() { return {block_.get(), size_}; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(float* block) const { ::operator delete[](block, alignment); }
  };
  static std::unique_ptr<float[], Free> allocate(std::size_t size) {
    std::unique_ptr<float[], Free> block(new (alignment) float[size]());
    return block;
  }

  std::size_t gradients_;
  std::size_t size_;
  std::unique_ptr<float[], Free> block_;
};

}  // namespace evenstep
