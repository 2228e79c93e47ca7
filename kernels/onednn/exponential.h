// exp() for loops that the compiler vectorises: libm's does not inline.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {

/// Within 2 units of the last place; 0 below -87, infinity above 88; a NaN stays one.
EVENSTEP_INLINE float exponential(float x) {
  constexpr float log2_e = 1.44269504F;
  constexpr float ln2_high = 0.693359375F;  // few digits: its products with n are exact
  constexpr float ln2_low = -2.12194440e-4F;
  constexpr float rounder = 12582912.0F;  // 1.5 x 2^23: what is added to it becomes whole
  const float shifted = x * log2_e + rounder;
  const float n = shifted - rounder;
  const float r = (x - n * ln2_high) - n * ln2_low;
  // Cephes' polynomial for exp(r) on +-ln(2)/2.
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) << 23) + (127U << 23);
  const float value = p * std::bit_cast<float>(power);
  const float not_small = x < -87 ? 0 : value;
  return x > 88 ? __builtin_inff() : not_small;
}

}  // namespace evenstep::kernels::onednn
