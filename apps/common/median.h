#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace evenstep {

/// Of an even number of values the upper one. There must be at least one.
template <typename Number>
Number median(std::vector<Number> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace evenstep
