#include "kernels/data/augmentation.h"

#include "kernels/hash.h"

namespace evenstep::kernels {
namespace {

constexpr std::uint64_t stream = 0x63726f7073;  // apart from other uses of the seed

/// From -most to most, of 32 random bits.
int offset(std::uint64_t bits) {
  constexpr std::uint64_t places = 2 * Crop::most + 1;
  return static_cast<int>((bits & 0xffffffff) * places >> 32) - Crop::most;
}

}  // namespace

Crop draw_crop(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  const std::uint64_t epoch_key = mix64(mix64(seed ^ stream) + static_cast<std::uint64_t>(epoch));
  const std::uint64_t first = mix64(epoch_key ^ mix64(static_cast<std::uint64_t>(sample)));
  const std::uint64_t second = mix64(first + 1);
  return {offset(first), offset(first >> 32), second >> 63 != 0};
}

}  // namespace evenstep::kernels
