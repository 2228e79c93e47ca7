#include "kernels/onednn/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace evenstep::kernels::onednn {

MemoryPlan::Region MemoryPlan::new_region() {
  region_bytes_.push_back(0);
  return region_bytes_.size() - 1;
}

dnnl::memory MemoryPlan::view(Region region, const dnnl::memory::desc& desc) {
  assert(blocks_.empty() && "view after commit");
  region_bytes_[region] = std::max(region_bytes_[region], desc.get_size());
  dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  views_.push_back({region, memory});
  return memory;
}

void MemoryPlan::commit() {
  constexpr std::size_t page = 4096;
  for (std::size_t bytes : region_bytes_) {
    const std::size_t rounded = (bytes / page + 1) * page;
    blocks_.emplace_back(std::aligned_alloc(page, rounded));
    if (!blocks_.back()) throw std::bad_alloc();
    std::memset(blocks_.back().get(), 0, rounded);
  }
  for (View& view : views_) view.memory.set_data_handle(blocks_[view.region].get());
}

}  // namespace evenstep::kernels::onednn
