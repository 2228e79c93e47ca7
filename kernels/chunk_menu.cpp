#include "kernels/chunk_menu.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include <fmt/format.h>

namespace evenstep::kernels {

ChunkMenu::ChunkMenu(int usual, int last) : usual_(usual) {
  constexpr int limit = 65536;
  for (int largest : {usual, last}) {
    if (largest < 1 || largest > limit || !std::has_single_bit(static_cast<unsigned>(largest))) {
      throw std::invalid_argument(
          fmt::format("largest chunk {}: must be a power of two from 1 to {}", largest, limit));
    }
  }
  for (int size = 1; size <= std::max(usual, last); size *= 2) sizes_.push_back(size);
}

}  // namespace evenstep::kernels
