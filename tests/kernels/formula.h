// Weights, images and labels from a whole-number formula that make_reference.py repeats, so that
// test and reference start from the same bits without storing any.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/network.h"

namespace evenstep::kernels::test {

inline std::uint32_t scramble(std::uint32_t stream, std::uint32_t position) {
  std::uint32_t x = position * 2654435761u + stream * 40503u + 12345u;
  x = (x ^ (x >> 15)) * 2246822519u;
  x = (x ^ (x >> 13)) * 3266489917u;
  return x ^ (x >> 16);
}

/// In [-1, 1), a multiple of 1/1024: exact in fp32, and in every product with a power of two.
inline float unit_value(std::uint32_t stream, std::uint32_t position) {
  return static_cast<float>(static_cast<int>(scramble(stream, position) % 2048) - 1024) / 1024;
}

/// The largest power of two that is at most 1.7 / sqrt(fan_in): about He's initialisation.
inline float weight_scale(std::int64_t fan_in) {
  float scale = 1;
  while (static_cast<double>(scale) * scale * static_cast<double>(fan_in) > 3) scale /= 2;
  return scale;
}

inline void fill_parameters(std::span<const ParameterRange> ranges, std::span<float> out) {
  std::uint32_t stream = 100;
  for (const ParameterRange& range : ranges) {
    const bool is_bias = range.shape.size() == 1;
    const float scale = is_bias ? 0.125f : weight_scale(range.fan_in);
    const bool is_constant = range.start.kind == InitialValue::Kind::constant;
    const float centre = is_constant ? static_cast<float>(range.start.size) : 0;
    for (std::int64_t i = 0; i < range.count; ++i) {
      out[static_cast<std::size_t>(range.first + i)] =
          centre + unit_value(stream, static_cast<std::uint32_t>(i)) * scale;
    }
    ++stream;
  }
}

/// Pixel `position` of all samples' pixels laid end to end.
inline float image_value(std::int64_t position) {
  return unit_value(1, static_cast<std::uint32_t>(position));
}

/// Label of a sample, or of a target of all samples' targets laid end to end.
inline std::int32_t label_of(std::int64_t target, int classes) {
  return static_cast<std::int32_t>(scramble(2, static_cast<std::uint32_t>(target)) %
                                   static_cast<std::uint32_t>(classes));
}

/// Token `position` of all samples' tokens laid end to end.
inline std::int32_t token_of(std::int64_t position, int classes) {
  return static_cast<std::int32_t>(scramble(3, static_cast<std::uint32_t>(position)) %
                                   static_cast<std::uint32_t>(classes));
}

}  // namespace evenstep::kernels::test
