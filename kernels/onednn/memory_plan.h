// All memory of a network, planned before any is allocated: everything that is never alive at the
// same time shares memory. The same tensor at the different sizes of the menu is one region;
// regions whose contents matter at different times of a chunk get the same block.
#pragma once

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
  /// times. A region that is never told of has a block of its own.
  void use(Region region, int time);

  /// A memory object at the start of `region`; it points nowhere before commit().
  dnnl::memory view(Region region, const dnnl::memory::desc& desc);

  /// Allocates all blocks, writes zeros to every page and points all views at their regions.
  /// Once only, after the last view.
  void commit();

  std::size_t allocated_bytes() const { return allocated_bytes_; }

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  struct View {
    Region region;
    dnnl::memory memory;
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
    std::size_t block = 0;
  };
  struct Block {
    std::size_t bytes = 0;
    std::vector<Times> taken;
    std::unique_ptr<void, Free> memory;
  };

  Region root(Region region) const;
  void choose_block(RegionState& region);

  dnnl::engine engine_;
  std::vector<RegionState> regions_;
  std::vector<View> views_;
  std::vector<Block> blocks_;
  std::size_t allocated_bytes_ = 0;
};

}  // namespace evenstep::kernels::onednn
