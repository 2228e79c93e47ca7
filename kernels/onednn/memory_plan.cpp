#include "kernels/onednn/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <new>

namespace evenstep::kernels::onednn {

void MemoryPlan::Times::include(const Times& other) {
  first = std::min(first, other.first);
  last = std::max(last, other.last);
}

MemoryPlan::Region MemoryPlan::new_region() {
  const Region region = regions_.size();
  regions_.emplace_back().same_as = region;
  return region;
}

MemoryPlan::Region MemoryPlan::root(Region region) const {
  while (regions_[region].same_as != region) region = regions_[region].same_as;
  return region;
}

void MemoryPlan::share(Region a, Region b) {
  a = root(a);
  b = root(b);
  if (a == b) return;
  regions_[a].bytes = std::max(regions_[a].bytes, regions_[b].bytes);
  regions_[a].times.include(regions_[b].times);
  regions_[b].same_as = a;
}

void MemoryPlan::use(Region region, int time) {
  regions_[root(region)].times.include({time, time});
}

dnnl::memory MemoryPlan::view(Region region, const dnnl::memory::desc& desc) {
  assert(blocks_.empty() && "view after commit");
  std::size_t& bytes = regions_[root(region)].bytes;
  bytes = std::max(bytes, desc.get_size());
  dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  views_.push_back({region, memory});
  return memory;
}

/// The first block that is free at the region's times. The largest region chooses first, so a block
/// is as large as its first region.
void MemoryPlan::choose_block(RegionState& region) {
  const bool told = region.times.first <= region.times.last;
  const auto fits = [&](const Block& block) {
    return told && !block.taken.empty() &&
           std::ranges::none_of(block.taken,
                                [&](const Times& taken) { return taken.overlap(region.times); });
  };
  const auto block = std::ranges::find_if(blocks_, fits);
  region.block = static_cast<std::size_t>(block - blocks_.begin());
  if (block == blocks_.end()) blocks_.push_back({.bytes = region.bytes, .taken = {}, .memory = {}});
  if (told) blocks_[region.block].taken.push_back(region.times);
}

void MemoryPlan::commit() {
  constexpr std::size_t page = 4096;
  std::vector<Region> roots;
  for (Region r = 0; r < regions_.size(); ++r) {
    if (root(r) == r && regions_[r].bytes > 0) roots.push_back(r);
  }
  std::ranges::stable_sort(roots, std::greater(), [&](Region r) { return regions_[r].bytes; });
  for (Region r : roots) choose_block(regions_[r]);
  for (Block& block : blocks_) {
    const std::size_t rounded = (block.bytes / page + 1) * page;
    block.memory.reset(std::aligned_alloc(page, rounded));
    if (!block.memory) throw std::bad_alloc();
    std::memset(block.memory.get(), 0, rounded);
    allocated_bytes_ += rounded;
  }
  for (View& view : views_) {
    const std::size_t block = regions_[root(view.region)].block;
    view.memory.set_data_handle(blocks_[block].memory.get());
  }
}

}  // namespace evenstep::kernels::onednn
