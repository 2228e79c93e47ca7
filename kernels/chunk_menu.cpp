#include "kernels/chunk_menu.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include <fmt/format.h>

namespace evenstep::kernels {

ChunkMenu::ChunkMenu(int usual, int last) {
  constexpr int limit = 65536;
  if (usual < 1 || usual > limit || !std::has_single_bit(static_cast<unsigned>(usual))) {
    throw std::invalid_argument(
        fmt::format("largest chunk {}: must be a power of two from 1 to {}", usual, limit));
  }
  for (int size = 1; size <= usual; size *= 2) sizes_.push_back(size);
  largest_ = std::max(usual, last / usual * usual);
}

}  // namespace evenstep::kernels
