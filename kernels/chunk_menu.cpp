#include "kernels/chunk_menu.h"

#include <bit>
#include <stdexcept>

#include <fmt/format.h>

namespace evenstep::kernels {

ChunkMenu::ChunkMenu(int largest) {
  constexpr int limit = 65536;
  if (largest < 1 || largest > limit || !std::has_single_bit(static_cast<unsigned>(largest))) {
    throw std::invalid_argument(
        fmt::format("largest chunk {}: must be a power of two from 1 to {}", largest, limit));
  }
  for (int size = 1; size <= largest; size *= 2) sizes_.push_back(size);
}

}  // namespace evenstep::kernels
