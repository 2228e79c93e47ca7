#include "kernels/onednn/few_rows.h"

#include <algorithm>

#include "kernels/onednn/loops.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr std::int64_t lanes = 16;
constexpr std::int64_t block_samples = 4;  // times as many outputs: their sums fill 16 vectors
constexpr std::int64_t block_outputs = 4;
constexpr std::int64_t most_samples = 16;

// A layer's weights may begin anywhere.
typedef float Vector __attribute__((vector_size(64), aligned(4), may_alias));

EVENSTEP_INLINE const Vector& vector_at(const float* at) {
  return *reinterpret_cast<const Vector*>(at);
}

EVENSTEP_INLINE float total(Vector v) {
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1);
  return v[0] + v[1];
}

template <int samples>
EVENSTEP_INLINE void multiply_block(const FewRows& shape, const float* values, const float* weights,
                                    const float* biases, float* results) {
  Vector sums[samples][block_outputs] = {};
  for (std::int64_t i = 0; i < shape.inputs; i += lanes) {
#pragma GCC unroll 4
    for (int s = 0; s < samples; ++s) {
      const Vector& value = vector_at(values + s * shape.inputs + i);
#pragma GCC unroll 4
      for (int o = 0; o < block_outputs; ++o) {
        sums[s][o] += value * vector_at(weights + o * shape.inputs + i);
      }
    }
  }
#pragma GCC unroll 4
  for (int s = 0; s < samples; ++s) {
#pragma GCC unroll 4
    for (int o = 0; o < block_outputs; ++o) {
      results[s * shape.outputs + o] = biases[o] + total(sums[s][o]);
    }
  }
}

/// All samples, for outputs [first, last).
EVENSTEP_MULTIVERSION void multiply_outputs(const FewRows& shape, const float* values,
                                            const float* weights, const float* biases,
                                            float* results, std::int64_t first, std::int64_t last) {
  for (std::int64_t o = first; o < last; o += block_outputs) {
    const float* rows = weights + o * shape.inputs;
    std::int64_t s = 0;
    for (; s + block_samples <= shape.samples; s += block_samples) {
      multiply_block<block_samples>(shape, values + s * shape.inputs, rows, biases + o,
                                    results + s * shape.outputs + o);
    }
    for (; s < shape.samples; ++s) {
      multiply_block<1>(shape, values + s * shape.inputs, rows, biases + o,
                        results + s * shape.outputs + o);
    }
  }
}

}  // namespace

bool FewRows::suits() const {
  return has_avx512() && samples <= most_samples && inputs % lanes == 0 &&
         outputs % block_outputs == 0;
}

void FewRows::multiply(const float* values, const float* weights, const float* biases,
                       float* results) const {
  const std::int64_t grain = 65536 / (inputs * samples) + 1;  // about ten microseconds of work
  loops::split_over_threads(outputs / block_outputs, grain,
                            [&](std::int64_t first, std::int64_t last) {
                              multiply_outputs(*this, values, weights, biases, results,
                                               first * block_outputs, last * block_outputs);
                            });
}

}  // namespace evenstep::kernels::onednn
