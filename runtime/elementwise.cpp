#include "runtime/elementwise.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "lb/hash.h"

namespace evenstep {
namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t leaf = 4096;
constexpr std::size_t block = 1024;  // of values on their way between fp32 and bf16

// Inline: a shared library's own functions could be replaced, and loops that call them are not
// vectorised.
inline Bf16 round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  const bool not_a_number = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<Bf16>((not_a_number ? bits | 0x400000 : rounded) >> 16);
}
inline float widen(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// Lane by lane, then the lanes in order: no freedom for the compiler to choose another order.
double leaf_sum_of_squares(std::span<const float> values) {
  double lane[lanes] = {};
  const std::size_t whole = values.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) {
      const double value = values[i + l];
      lane[l] += value * value;
    }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double value = values[i];
    lane[i - whole] += value * value;
  }
  double sum = 0;
  for (double part : lane) sum += part;
  return sum;
}

}  // namespace

void scale(std::span<float> values, float factor) {
  for (float& value : values) value *= factor;
}

void scaled_copy(std::span<const float> from, float factor, std::span<float> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = factor * from[i];
}

Bf16 to_bf16(float value) { return round_to_bf16(value); }
float to_float(Bf16 value) { return widen(value); }

void add(std::span<const Bf16> from, std::span<Bf16> to) {
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = round_to_bf16(widen(from[i]) + widen(to[i]));
}

// Block by block, ascending: what a block is written to has been read before.
std::span<Bf16> compress(std::span<float> values) {
  auto* place = reinterpret_cast<std::byte*>(values.data());
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t count = std::min(block, values.size() - first);
    Bf16 small[block];
    for (std::size_t i = 0; i < count; ++i) small[i] = round_to_bf16(values[first + i]);
    std::memcpy(place + first * sizeof(Bf16), small, count * sizeof(Bf16));
  }
  return {reinterpret_cast<Bf16*>(place), values.size()};
}

// Descending.
void expand(std::span<float> values) {
  const auto* place = reinterpret_cast<const std::byte*>(values.data());
  for (std::size_t end = values.size(); end > 0;) {
    const std::size_t first = (end - 1) / block * block;
    Bf16 small[block];
    std::memcpy(small, place + first * sizeof(Bf16), (end - first) * sizeof(Bf16));
    for (std::size_t i = 0; i < end - first; ++i) values[first + i] = widen(small[i]);
    end = first;
  }
}

double sum_of_squares(std::span<const float> values) {
  if (values.size() <= leaf) return leaf_sum_of_squares(values);
  const std::size_t left = (values.size() / 2 + leaf - 1) / leaf * leaf;
  return sum_of_squares(values.first(left)) + sum_of_squares(values.subspan(left));
}

std::uint32_t hash_bits(std::span<const float> values) {
  lb::Hash24 hash;
  for (float value : values) hash.add(std::bit_cast<std::uint32_t>(value));
  return hash.value();
}

}  // namespace evenstep
