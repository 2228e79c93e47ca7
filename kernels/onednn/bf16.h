// bf16 values by their bits, to and from fp32, for loops that the compiler vectorises.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {

using Bf16 = std::uint16_t;

EVENSTEP_INLINE float widen(float value) { return value; }
EVENSTEP_INLINE float widen(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

/// Rounds to nearest, ties to even; keeps infinities; a NaN stays one.
EVENSTEP_INLINE Bf16 round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<Bf16>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

EVENSTEP_INLINE void narrow(float value, float& to) { to = value; }
EVENSTEP_INLINE void narrow(float value, Bf16& to) { to = round_to_bf16(value); }

}  // namespace evenstep::kernels::onednn
