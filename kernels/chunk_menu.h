// A share is run as chunks whose sizes come from a fixed menu, so that re-sizing a share creates
// no kernel and allocates nothing: every size of the menu is prepared and touched at start.
//
// A gradient is final only in the last chunk's backward, and communication can only overlap with
// what is left then. So the last chunk may be larger: a group of usual ones that goes backward
// layer by layer, each layer over all of them before the next, at the speed of the usual size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace evenstep::kernels {

/// Powers of two. Every share of 0 or more samples can be cut into them.
class ChunkMenu {
 public:
  /// Sizes from 1 to `usual`, a power of two from 1 to 65536, and for the last chunk of a share the
  /// multiples of it up to `last`. Throws std::invalid_argument otherwise.
  explicit ChunkMenu(int usual, int last = 1);

  /// The sizes in samples, ascending: 1, 2, 4, ..., usual.
  std::span<const int> sizes() const { return sizes_; }
  /// The one that shares are fastest in.
  int usual() const { return sizes_.back(); }
  /// Of the last chunk of a share.
  int largest() const { return largest_; }

  /// Cuts `share` samples into as few chunks as possible and calls `run(chunk_size)` on each, the
  /// smallest first.
  template <typename Run>
  void for_each_chunk(std::int64_t share, Run&& run) const {
    for (int size : sizes_) {
      if (size == usual()) {
        for (std::int64_t n = share / size; n > 0; --n) run(size);
        return;
      }
      if ((share & size) != 0) run(size);
    }
  }

  /// Likewise, with a last chunk as large as share, menu and `last` samples allow.
  template <typename Run>
  void for_each_chunk(std::int64_t share, int last, Run&& run) const {
    last = static_cast<int>(std::min<std::int64_t>({share, last, largest()})) / usual() * usual();
    if (last <= usual()) return for_each_chunk(share, run);
    for_each_chunk(share - last, run);
    run(last);
  }

 private:
  std::vector<int> sizes_;
  int largest_;
};

/// Parts of a share that its last chunk may take: 0, no larger than the others, which is the
/// fastest where nothing overlaps, and then what differs where a mean share has `mean` samples and
/// a chunk at most `largest`. A part and not a number of samples, so that ranks that finish
/// backward together have their first gradients together, too: what is best for communication that
/// lasts longer than backward is best for one that does not.
std::vector<double> last_parts(const ChunkMenu& menu, int largest, double mean);

}  // namespace evenstep::kernels
