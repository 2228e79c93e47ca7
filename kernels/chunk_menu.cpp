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

std::vector<double> last_parts(const ChunkMenu& menu, int largest, double mean) {
  std::vector<double> parts = {0};
  double last = menu.usual();
  for (double part : {0.25, 0.5, 1.0})
    if (const double samples = std::min<double>(part * mean, largest); samples > last) {
      parts.push_back(part);
      last = samples;
    }
  return parts;
}

}  // namespace evenstep::kernels
