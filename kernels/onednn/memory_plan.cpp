#include "kernels/onednn/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <new>

namespace evenstep::kernels::onednn {
namespace {

constexpr std::size_t page = 4096;

}  // namespace

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
  regions_[region].views.push_back(memory);
  return memory;
}

/// Whether contents outlive a phase.
bool MemoryPlan::by_piece(const RegionState& region) const {
  if (region.kept) return true;
  const auto phase = [&](int time) { return std::ranges::upper_bound(phases_, time); };
  return phase(region.times.first) < phase(region.times.last);
}

/// The first block of its kind that is free at the region's times. The largest region chooses
/// first, so a block is as large as its first region.
void MemoryPlan::choose_block(RegionState& region) {
  const bool told = region.times.first <= region.times.last;
  const bool own_places = by_piece(region);
  const auto fits = [&](const Block& block) {
    return told && block.by_piece == own_places && !block.taken.empty() &&
           block.is_free(region.times);
  };
  const auto block = std::ranges::find_if(blocks_, fits);
  region.block = static_cast<std::size_t>(block - blocks_.begin());
  if (block == blocks_.end()) {
    const std::size_t bytes = told ? (region.bytes + page - 1) / page * page : region.bytes;
    blocks_.push_back({.bytes = bytes, .by_piece = own_places, .taken = {}, .memory = {}});
  }
  if (told) blocks_[region.block].taken.push_back(region.times);
}

std::vector<MemoryPlan::Region> MemoryPlan::largest_first() const {
  std::vector<Region> roots;
  for (Region r = 0; r < regions_.size(); ++r) {
    if (root(r) == r && regions_[r].bytes > 0) roots.push_back(r);
  }
  std::ranges::stable_sort(roots, std::greater(), [&](Region r) { return regions_[r].bytes; });
  return roots;
}

void MemoryPlan::choose_blocks() {
  blocks_.clear();
  for (Region r : largest_first()) choose_block(regions_[r]);
}

/// A whole chunk needs no place by piece: what outlives a phase goes where those that do not leave
/// room for it.
void MemoryPlan::choose_whole_block(RegionState& region) {
  region.whole_block = region.block;
  if (region.kept || !blocks_[region.block].by_piece) return;
  const auto fits = [&](const Block& block) {
    return !block.by_piece && !block.taken.empty() && block.bytes >= region.bytes &&
           block.is_free(region.times);
  };
  const auto block = std::ranges::find_if(blocks_, fits);
  region.whole_block = static_cast<std::size_t>(block - blocks_.begin());
  if (block == blocks_.end())
    blocks_.push_back({.bytes = blocks_[region.block].bytes, .taken = {}, .memory = {}});
  blocks_[region.whole_block].taken.push_back(region.times);
}

std::size_t MemoryPlan::pieces_within(std::size_t most_bytes) const {
  std::size_t bytes = 1;
  for (const Block& block : blocks_) bytes += block.by_piece ? block.bytes : 0;
  return std::max<std::size_t>(1, most_bytes / bytes);
}

void MemoryPlan::allocate(Block& block, std::size_t pieces) {
  const std::size_t bytes = block.by_piece ? pieces * block.bytes : block.bytes;
  const std::size_t rounded = (bytes / page + 1) * page;
  block.memory.reset(std::aligned_alloc(page, rounded));
  if (!block.memory) throw std::bad_alloc();
  std::memset(block.memory.get(), 0, rounded);
  allocated_bytes_ += rounded;
}

std::size_t MemoryPlan::commit(std::size_t pieces, std::size_t most_bytes) {
  choose_blocks();
  pieces = std::min(pieces, pieces_within(most_bytes));
  if (pieces == 1) {
    phases_.clear();  // all may share
    choose_blocks();
  }
  for (Region r : largest_first()) choose_whole_block(regions_[r]);
  for (Block& block : blocks_) allocate(block, pieces);
  for (Region r = 0; r < regions_.size(); ++r) {
    regions_[r].block = regions_[root(r)].block;
    regions_[r].whole_block = regions_[root(r)].whole_block;
    for (dnnl::memory& view : regions_[r].views)
      view.set_data_handle(blocks_[regions_[r].block].memory.get());
  }
  return pieces;
}

void MemoryPlan::select(Region region, std::size_t piece) {
  RegionState& state = regions_[region];
  if (state.piece == piece) return;
  state.piece = piece;
  const bool whole = piece == whole_chunk;
  const Block& block = blocks_[whole ? state.whole_block : state.block];
  if (!block.by_piece && state.whole_block == state.block) return;
  void* place = static_cast<std::byte*>(block.memory.get()) + (whole ? 0 : piece * block.bytes);
  for (dnnl::memory& view : state.views) view.set_data_handle(place);
}

}  // namespace evenstep::kernels::onednn
