// Forward of a linear layer for a chunk of few samples, from weights as they lie. oneDNN's product
// first puts such weights (an output's in a row) in another order, in every call: for few samples
// that takes longer than the product. fp32, AVX-512.
#pragma once

#include <cstdint>

namespace evenstep::kernels::onednn {

struct FewRows {
  std::int64_t samples, inputs, outputs;

  /// Whether multiply() can do this, and is faster than oneDNN here.
  bool suits() const;

  /// results[s][o] = biases[o] + sum over i of values[s][i] x weights[o][i]. Values and weights are
  /// aligned to 64 bytes.
  void multiply(const float* values, const float* weights, const float* biases,
                float* results) const;
};

}  // namespace evenstep::kernels::onednn
