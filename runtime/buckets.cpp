#include "runtime/buckets.h"

#include <algorithm>

namespace evenstep {
namespace {

// Equal parts of at least `bucket_elements`.
void cut_evenly(std::size_t first, std::size_t end, std::size_t bucket_elements,
                std::vector<std::size_t>& ends) {
  const std::size_t parts = std::max<std::size_t>(1, (end - first) / bucket_elements);
  for (std::size_t part = 1; part <= parts; ++part)
    ends.push_back(first + (end - first) * part / parts);
}

}  // namespace

std::vector<std::size_t> cut_buckets(std::span<const std::int64_t> layer_ends,
                                     std::size_t gradients, std::size_t tail,
                                     std::size_t bucket_elements, bool tail_apart) {
  bucket_elements = std::max<std::size_t>(1, bucket_elements);
  const auto all = static_cast<std::int64_t>(gradients);
  if (layer_ends.empty()) layer_ends = {&all, 1};
  std::vector<std::size_t> ends;
  std::size_t first = 0;
  for (std::int64_t layer_end : layer_ends) {
    const auto end = static_cast<std::size_t>(layer_end);
    if (end - first < bucket_elements) continue;
    cut_evenly(first, end, bucket_elements, ends);
    first = end;
  }
  if (ends.empty() || ends.back() < gradients) ends.push_back(gradients);
  if (tail_apart && gradients > 0)
    ends.push_back(gradients + tail);
  else
    ends.back() += tail;
  return ends;
}

}  // namespace evenstep
