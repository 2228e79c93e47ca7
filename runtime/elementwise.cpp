#include "runtime/elementwise.h"

#include <bit>
#include <cstddef>

#include "lb/hash.h"

namespace evenstep {
namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t leaf = 4096;

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

void add(std::span<const float> from, std::span<float> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
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
