// How the arena is cut into buckets, each of them one sum over all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace evenstep {

/// Where each bucket ends, in elements of the arena; the last bucket holds the tail.
///
/// `layer_ends`: where the ranges end that backward reports as final, ascending, the last of them
/// at `gradients`; empty: not known. A bucket closes at the first layer's end at which it holds
/// `bucket_elements`, so that it never waits for a layer that it hardly needs; a layer of several
/// times that size is several buckets. The last bucket takes the rest, and the tail, which with
/// `tail_apart` is a bucket of its own.
std::vector<std::size_t> cut_buckets(std::span<const std::int64_t> layer_ends,
                                     std::size_t gradients, std::size_t tail,
                                     std::size_t bucket_elements, bool tail_apart = false);

}  // namespace evenstep
