#include "kernels/network.h"

#include <cassert>
#include <cmath>

#include "kernels/models.h"

namespace evenstep::kernels {
namespace {

/// The finaliser of splitmix64: every input bit flips each output bit with probability 1/2.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Uniform in (-1, 1), one of 2^24 values that float holds exactly; no rounding is involved.
double symmetric_uniform(std::uint64_t seed, std::uint64_t position) {
  const std::uint64_t bits = mix(mix(seed) + position * 0x9e3779b97f4a7c15u) >> 40;
  return static_cast<double>(2 * static_cast<std::int64_t>(bits) + 1 - (1 << 24)) / (1 << 24);
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
    const double bound = 1 / std::sqrt(static_cast<double>(range.fan_in));
    for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
      const double value = symmetric_uniform(seed, static_cast<std::uint64_t>(i)) * bound;
      parameters[static_cast<std::size_t>(i)] = static_cast<float>(value);
    }
  }
}

}  // namespace evenstep::kernels
