// Plain loops over vectors that every rank repeats bit for bit: the compiler vectorises them, and
// they are compiled without fused multiply-add. On GPUs the same functions will be kernels.
#pragma once

#include <cstdint>
#include <span>

#include "evenstep/communicator.h"

namespace evenstep {

/// values[i] *= factor
void scale(std::span<float> values, float factor);

/// to[i] = factor * from[i]; both may be the same place.
void scaled_copy(std::span<const float> from, float factor, std::span<float> to);

/// Rounds to nearest, ties to even; what is not finite stays so.
Bf16 to_bf16(float value);
float to_float(Bf16 value);

/// to[i] += from[i], added in fp32 and rounded.
void add(std::span<const Bf16> from, std::span<Bf16> to);

/// Rounds all values to bf16, kept in the first half of their own memory; and back.
std::span<Bf16> compress(std::span<float> values);
void expand(std::span<float> values);

/// Sum of squares in double, over a tree whose shape depends on the length alone.
double sum_of_squares(std::span<const float> values);

/// 24 bits that differ, but for chance, where the bits of the values differ.
std::uint32_t hash_bits(std::span<const float> values);

}  // namespace evenstep
