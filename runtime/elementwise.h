// Plain loops over vectors that every rank repeats bit for bit: the compiler vectorises them, and
// they are compiled without fused multiply-add. On GPUs the same functions will be kernels.
#pragma once

#include <cstdint>
#include <span>

namespace evenstep {

/// values[i] *= factor
void scale(std::span<float> values, float factor);

/// to[i] = factor * from[i]; both may be the same place.
void scaled_copy(std::span<const float> from, float factor, std::span<float> to);

/// to[i] += from[i]
void add(std::span<const float> from, std::span<float> to);

/// Sum of squares in double, over a tree whose shape depends on the length alone.
double sum_of_squares(std::span<const float> values);

/// 24 bits that differ, but for chance, where the bits of the values differ.
std::uint32_t hash_bits(std::span<const float> values);

}  // namespace evenstep
