#include "kernels/network.h"

#include <cassert>

#include "kernels/hash.h"
#include "kernels/models.h"

namespace evenstep::kernels {
namespace {

/// Uniform in (-1, 1), one of 2^24 values that float holds exactly; no rounding is involved.
double symmetric_uniform(std::uint64_t seed, std::uint64_t position) {
  const std::uint64_t bits = mix64(mix64(seed) + position * 0x9e3779b97f4a7c15u) >> 40;
  return static_cast<double>(2 * static_cast<std::int64_t>(bits) + 1 - (1 << 24)) / (1 << 24);
}

/// A sum of twelve such values: variance 1, and no more than basic arithmetic.
double normal(std::uint64_t seed, std::uint64_t position) {
  constexpr int terms = 12;
  double sum = 0;
  for (std::uint64_t k = 0; k < terms; ++k)
    sum += symmetric_uniform(seed + 1, position * terms + k);
  return sum / 2;
}

double initial_value(const InitialValue& start, std::uint64_t seed, std::uint64_t position) {
  switch (start.kind) {
    case InitialValue::Kind::uniform:
      return symmetric_uniform(seed, position) * start.size;
    case InitialValue::Kind::normal:
      return normal(seed, position) * start.size;
    case InitialValue::Kind::constant:
      break;
  }
  return start.size;
}

}  // namespace

std::unique_ptr<Network> make_network(const NetworkOptions& options) {
  const Model& model = find_model(options.model);
  NetworkOptions filled = options;
  if (filled.largest_chunk == 0) {
    const bool f32 = options.dtype == Dtype::f32;
    filled.largest_chunk = f32 ? model.largest_chunk_f32 : model.largest_chunk_bf16;
  }
  return make_network(model.layers(), filled);
}

void initialise_parameters(std::span<const ParameterRange> ranges, std::uint64_t seed,
                           std::span<float> parameters) {
  for (const ParameterRange& range : ranges) {
    assert(range.first + range.count <= static_cast<std::int64_t>(parameters.size()));
    // One product and one conversion a value: nothing a compiler could fuse or reorder.
    for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
      const double value = initial_value(range.start, seed, static_cast<std::uint64_t>(i));
      parameters[static_cast<std::size_t>(i)] = static_cast<float>(value);
    }
  }
}

}  // namespace evenstep::kernels
