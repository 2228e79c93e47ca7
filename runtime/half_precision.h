// The 16-bit types in which gradients travel: conversion, and sums with fp32 additions. The same
// bits on every machine, whether or not it converts in hardware.
#pragma once

#include <span>

#include "evenstep/communicator.h"

namespace evenstep {

/// `Half`: Bf16 or F16. Rounds to nearest, ties to even; what is too large becomes infinity, what
/// is not finite stays so.
template <typename Half>
Half round_to(float value);
float to_float(Bf16 value);
float to_float(F16 value);

/// to[i] += from[i], added in fp32 and rounded.
template <typename Half>
void add(std::span<const Half> from, std::span<Half> to);

/// Rounds all values, times `factor`, kept in the first half of their own memory.
template <typename Half>
std::span<Half> compress(std::span<float> values, float factor);
/// The way back. Returns the largest magnitude before it was multiplied; infinity if one is not
/// finite.
template <typename Half>
float expand(std::span<float> values, float factor);

}  // namespace evenstep
