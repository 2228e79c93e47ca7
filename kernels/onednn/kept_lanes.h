// Lists what is kept of vectors of eight: AVX2 has no instruction that does.
#pragma once

#include <array>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace evenstep::kernels::onednn {

/// For every set of eight lanes, the bits of a byte: its lanes, a byte each, in order.
inline constexpr auto lanes_of = [] {
  std::array<std::uint64_t, 256> result{};
  for (unsigned set = 0; set < 256; ++set) {
    for (unsigned lane = 0, place = 0; lane < 8; ++lane)
      if ((set >> lane & 1) != 0) result[set] |= std::uint64_t{lane} << (8 * place++);
  }
  return result;
}();

#if defined(__x86_64__)
/// What permutes the lanes of this set to the front, in order.
__attribute__((target("avx2"))) inline __m256i to_front(unsigned set) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(lanes_of[set])));
}
#endif

}  // namespace evenstep::kernels::onednn
