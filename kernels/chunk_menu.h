// A share is run as chunks whose sizes come from a fixed menu, so that re-sizing a share creates
// no kernel and allocates nothing: every size of the menu is prepared and touched at start.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace evenstep::kernels {

/// Powers of two. Every share of 0 or more samples can be cut into them.
class ChunkMenu {
 public:
  /// Sizes from 1 to `usual`, and on to `last` for the last chunk of a share. Throws
  /// std::invalid_argument unless both are powers of two from 1 to 65536.
  explicit ChunkMenu(int usual, int last = 1);

  /// The sizes in samples, ascending: 1, 2, 4, ..., largest.
  std::span<const int> sizes() const { return sizes_; }
  int largest() const { return sizes_.back(); }
  /// Those up to the one that shares are fastest in.
  std::span<const int> usual_sizes() const {
    return sizes().first(static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(usual_))));
  }
  int usual() const { return usual_; }

  /// Cuts `share` samples into as few usual chunks as possible and calls `run(chunk_size)` on each,
  /// the smallest first: a gradient is final only in the last chunk's backward, so the largest
  /// chunk comes last and leaves the most time to overlap communication with it.
  template <typename Run>
  void for_each_chunk(std::int64_t share, Run&& run) const {
    for (int size : sizes_) {
      if (size == usual_) {
        for (std::int64_t n = share / size; n > 0; --n) run(size);
        return;
      }
      if ((share & size) != 0) run(size);
    }
  }

  /// Likewise, with a last chunk as large as share, menu and `last` allow.
  template <typename Run>
  void for_each_chunk(std::int64_t share, int last, Run&& run) const {
    last = std::min(last, largest());
    while (last > share) last /= 2;
    if (last <= usual_) return for_each_chunk(share, run);
    for_each_chunk(share - last, run);
    run(last);
  }

 private:
  int usual_;
  std::vector<int> sizes_;
};

}  // namespace evenstep::kernels
