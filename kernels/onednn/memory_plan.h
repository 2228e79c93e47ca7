// All memory of a network, planned before any is allocated: everything that is never alive at the
// same time, above all the same tensor at the different sizes of the menu, shares one region.
#pragma once

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

  /// A memory object at the start of `region`; it points nowhere before commit().
  dnnl::memory view(Region region, const dnnl::memory::desc& desc);

  /// Allocates all regions, writes zeros to every page and points all views at their regions.
  /// Once only, after the last view.
  void commit();

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  struct View {
    Region region;
    dnnl::memory memory;
  };
  dnnl::engine engine_;
  std::vector<std::size_t> region_bytes_;
  std::vector<View> views_;
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

}  // namespace evenstep::kernels::onednn
