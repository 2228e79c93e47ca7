// Conversions without branches, so that the compiler vectorises them. Those of F16 take ten times
// as long as bf16's that way: F16C's instructions do the same where the processor has them.
#include "runtime/half_precision.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define EVENSTEP_F16C __attribute__((target("avx,f16c")))
#endif

namespace evenstep {
namespace {

constexpr std::size_t block = 1024;  // of values on their way between fp32 and 16 bits

// Inline: a shared library's own functions could be replaced, and loops that call them are not
// vectorised.
inline float widen(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}
inline void round(float value, Bf16& to) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  const bool not_a_number = (bits & 0x7fffffff) > 0x7f800000;
  to = static_cast<Bf16>((not_a_number ? bits | 0x400000 : rounded) >> 16);
}

// fp32's exponent is 112 larger. A subnormal's digits are those of a number from 2^-14 to 2^-13.
// Signed numbers: SSE2 compares no others.
inline float widen(F16 value) {
  const auto bits = static_cast<std::uint32_t>(value);
  const auto magnitude = static_cast<std::int32_t>((bits & 0x7fff) << 13);
  const auto subnormal =
      std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude + (113 << 23)) - 0x1p-14F);
  const std::int32_t infinite = magnitude + (224 << 23);
  std::int32_t wide = magnitude < 1 << 23 ? subnormal : magnitude + (112 << 23);
  wide = magnitude < 31 << 23 ? wide : infinite;
  wide = magnitude <= 31 << 23 ? wide : infinite | 0x400000;  // a NaN, quiet
  return std::bit_cast<float>(static_cast<std::uint32_t>(wide) | (bits & 0x8000) << 16);
}
// Adding 0.5, whose last digit is 2^-24, rounds a number to F16's subnormals.
inline void round(float value, F16& to) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7fffffff);
  const std::int32_t normal = (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const std::int32_t subnormal =
      std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000;
  std::int32_t small = magnitude < 113 << 23 ? subnormal : normal;
  small = magnitude < 143 << 23 ? small : 0x7c00;
  small = magnitude <= 0x7f800000 ? small : 0x7e00 | (magnitude >> 13 & 0x3ff);
  to = static_cast<F16>(static_cast<std::uint32_t>(small) | (bits >> 16 & 0x8000));
}

// How many values, from the first on, have been converted by instructions of the processor's own.
std::size_t add_by_hardware(const Bf16*, Bf16*, std::size_t) { return 0; }
std::size_t narrow_by_hardware(const float*, float, Bf16*, std::size_t) { return 0; }
std::size_t widen_by_hardware(const Bf16*, float, float*, std::size_t) { return 0; }

#ifdef EVENSTEP_F16C

constexpr std::size_t lanes = 8;

EVENSTEP_F16C inline __m256 load(const F16* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
EVENSTEP_F16C inline void store(__m256 values, F16* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}
EVENSTEP_F16C void add_f16c(const F16* from, F16* to, std::size_t count) {
  for (std::size_t i = 0; i < count; i += lanes)
    store(_mm256_add_ps(load(from + i), load(to + i)), to + i);
}
EVENSTEP_F16C void narrow_f16c(const float* from, float factor, F16* to, std::size_t count) {
  const __m256 factors = _mm256_set1_ps(factor);
  for (std::size_t i = 0; i < count; i += lanes)
    store(_mm256_mul_ps(_mm256_loadu_ps(from + i), factors), to + i);
}
EVENSTEP_F16C void widen_f16c(const F16* from, float factor, float* to, std::size_t count) {
  const __m256 factors = _mm256_set1_ps(factor);
  for (std::size_t i = 0; i < count; i += lanes)
    _mm256_storeu_ps(to + i, _mm256_mul_ps(load(from + i), factors));
}

// No processor with AVX2 is without F16C, for which clang 14 has no name.
std::size_t hardware_count(std::size_t count) {
  static const bool has_f16c = __builtin_cpu_supports("avx2") != 0;
  return has_f16c ? count / lanes * lanes : 0;
}
std::size_t add_by_hardware(const F16* from, F16* to, std::size_t count) {
  const std::size_t done = hardware_count(count);
  if (done > 0) add_f16c(from, to, done);
  return done;
}
std::size_t narrow_by_hardware(const float* from, float factor, F16* to, std::size_t count) {
  const std::size_t done = hardware_count(count);
  if (done > 0) narrow_f16c(from, factor, to, done);
  return done;
}
std::size_t widen_by_hardware(const F16* from, float factor, float* to, std::size_t count) {
  const std::size_t done = hardware_count(count);
  if (done > 0) widen_f16c(from, factor, to, done);
  return done;
}

#else

std::size_t add_by_hardware(const F16*, F16*, std::size_t) { return 0; }
std::size_t narrow_by_hardware(const float*, float, F16*, std::size_t) { return 0; }
std::size_t widen_by_hardware(const F16*, float, float*, std::size_t) { return 0; }

#endif

template <typename Half>
void narrow(std::span<const float> from, float factor, Half* to) {
  for (std::size_t i = narrow_by_hardware(from.data(), factor, to, from.size()); i < from.size();
       ++i)
    round(factor * from[i], to[i]);
}

template <typename Half>
void widen(std::span<const Half> from, float factor, float* to) {
  for (std::size_t i = widen_by_hardware(from.data(), factor, to, from.size()); i < from.size();
       ++i)
    to[i] = factor * widen(from[i]);
}

// Of both types, magnitudes are ordered as their bits are.
template <typename Half>
std::int16_t largest_of(std::span<const Half> values) {
  std::int16_t largest = 0;
  for (Half value : values)
    largest = std::max(largest, static_cast<std::int16_t>(static_cast<unsigned>(value) & 0x7fff));
  return largest;
}

}  // namespace

template <typename Half>
Half round_to(float value) {
  Half half;
  round(value, half);
  return half;
}
float to_float(Bf16 value) { return widen(value); }
float to_float(F16 value) { return widen(value); }

template <typename Half>
void add(std::span<const Half> from, std::span<Half> to) {
  for (std::size_t i = add_by_hardware(from.data(), to.data(), from.size()); i < from.size(); ++i)
    round(widen(from[i]) + widen(to[i]), to[i]);
}

// Block by block, ascending: what a block is written to has been read before.
template <typename Half>
std::span<Half> compress(std::span<float> values, float factor) {
  auto* place = reinterpret_cast<std::byte*>(values.data());
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t count = std::min(block, values.size() - first);
    Half small[block];
    narrow<Half>(values.subspan(first, count), factor, small);
    std::memcpy(place + first * sizeof(Half), small, count * sizeof(Half));
  }
  return {reinterpret_cast<Half*>(place), values.size()};
}

// Descending.
template <typename Half>
float expand(std::span<float> values, float factor) {
  const auto* place = reinterpret_cast<const std::byte*>(values.data());
  std::int16_t largest = 0;
  for (std::size_t end = values.size(); end > 0;) {
    const std::size_t first = (end - 1) / block * block;
    Half small[block];
    const auto part = std::span<const Half>(small).first(end - first);
    std::memcpy(small, place + first * sizeof(Half), part.size_bytes());
    largest = std::max(largest, largest_of(part));
    widen(part, factor, values.data() + first);
    end = first;
  }
  const float magnitude = widen(static_cast<Half>(largest));
  return std::isnan(magnitude) ? std::numeric_limits<float>::infinity() : magnitude;
}

template Bf16 round_to<Bf16>(float);
template F16 round_to<F16>(float);
template void add(std::span<const Bf16>, std::span<Bf16>);
template void add(std::span<const F16>, std::span<F16>);
template std::span<Bf16> compress(std::span<float>, float);
template std::span<F16> compress(std::span<float>, float);
template float expand<Bf16>(std::span<float>, float);
template float expand<F16>(std::span<float>, float);

}  // namespace evenstep
