// All memory of a network, planned before any is allocated: everything that is never alive at the
// same time shares memory. The same tensor at the different sizes of the menu is one region;
// regions whose contents matter at different times of a chunk get the same block.
//
// A large chunk runs in pieces: all of them through one phase before the first enters the next.
// What a piece leaves behind for a later phase has a place of its own for each piece. A chunk that
// runs whole has it elsewhere, in memory that it shares as if there were no others.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include <dnnl.hpp>

namespace evenstep::kernels::onednn {

class MemoryPlan {
 public:
  /// Index of a block of memory as large as the largest view of it.
  using Region = std::size_t;

  explicit MemoryPlan(const dnnl::engine& engine) : engine_(engine) {}

  Region new_region();

  /// From now on both are one region.
  void share(Region a, Region b);

  /// The contents of `region` matter at this time of a chunk, and all the while between two such
  /// times. A region that is never told of has a block of its own, one for all pieces.
  void use(Region region, int time);
  /// A phase begins at this time. Ascending; the first begins by itself.
  void begin_phase(int time) { phases_.push_back(time); }
  /// The contents of `region` matter from forward to backward of a chunk: it has a block of its
  /// own, where the pieces lie one behind the other.
  void keep(Region region) { regions_[region].kept = true; }

  /// A memory object at the start of `region`; it points nowhere before commit().
  dnnl::memory view(Region region, const dnnl::memory::desc& desc);

  /// Allocates all blocks for as many pieces as `most_bytes` allow, at least 1 and at most
  /// `pieces`, writes zeros to every page and points all views at the first piece. Once only, after
  /// the last view. Returns the number of pieces.
  std::size_t commit(std::size_t pieces = 1, std::size_t most_bytes = SIZE_MAX);

  /// Points the views of `region` at its contents for this piece, or for a chunk that is not cut.
  static constexpr std::size_t whole_chunk = SIZE_MAX;
  void select(Region region, std::size_t piece);

  Region regions() const { return regions_.size(); }

  std::size_t allocated_bytes() const { return allocated_bytes_; }

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  /// When contents matter, both ends included; first > last: not told.
  struct Times {
    int first = INT_MAX;
    int last = -1;
    void include(const Times& other);
    bool overlap(const Times& other) const { return first <= other.last && other.first <= last; }
  };
  struct RegionState {
    Region same_as = 0;  // itself, but for a region that became one with another
    std::size_t bytes = 0;
    Times times;
    bool kept = false;
    std::size_t block = 0;
    std::size_t whole_block = 0;  // likewise, of a whole chunk
    std::vector<dnnl::memory> views;
    std::size_t piece = 0;  // that they point at
  };
  struct Block {
    std::size_t bytes = 0;
    bool by_piece = false;  // it has a place for each piece
    std::vector<Times> taken;
    bool is_free(const Times& times) const {
      return std::ranges::none_of(taken, [&](const Times& t) { return t.overlap(times); });
    }
    std::unique_ptr<void, Free> memory;
  };

  Region root(Region region) const;
  bool by_piece(const RegionState& region) const;
  std::vector<Region> largest_first() const;
  void choose_blocks();
  void choose_block(RegionState& region);
  void choose_whole_block(RegionState& region);
  std::size_t pieces_within(std::size_t most_bytes) const;
  void allocate(Block& block, std::size_t pieces);

  dnnl::engine engine_;
  std::vector<RegionState> regions_;
  std::vector<int> phases_;
  std::vector<Block> blocks_;
  std::size_t allocated_bytes_ = 0;
};

}  // namespace evenstep::kernels::onednn
