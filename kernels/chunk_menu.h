// A share is run as chunks whose sizes come from a fixed menu, so that re-sizing a share creates
// no kernel and allocates nothing: every size of the menu is prepared and touched at start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evenstep::kernels {

/// Powers of two from 1 to `largest`. Every share of 0 or more samples can be cut into them.
class ChunkMenu {
 public:
  /// Throws std::invalid_argument unless `largest` is a power of two from 1 to 65536.
  explicit ChunkMenu(int largest);

  /// The sizes in samples, ascending: 1, 2, 4, ..., largest.
  std::span<const int> sizes() const { return sizes_; }
  int largest() const { return sizes_.back(); }

  /// Cuts `share` samples into as few chunks as possible and calls `run(chunk_size)` on each, the
  /// smallest first: a gradient is final only in the last chunk's backward, so the largest chunk
  /// comes last and leaves the most time to overlap communication with it.
  template <typename Run>
  void for_each_chunk(std::int64_t share, Run&& run) const {
    for (int size : sizes_) {
      if (size == largest()) {
        for (std::int64_t n = share / size; n > 0; --n) run(size);
      } else if ((share & size) != 0) {
        run(size);
      }
    }
  }

 private:
  std::vector<int> sizes_;
};

}  // namespace evenstep::kernels
