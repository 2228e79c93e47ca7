// Tensors of sequences: a token's features lie together, so that a chunk is a matrix with a row for
// each token.
#pragma once

#include "kernels/onednn/context.h"

namespace evenstep::kernels::onednn {

/// With gradients in the network's type; `values` is that of the values.
Tensor make_token_rows(Context& context, const SampleShape& shape, dnnl::memory::data_type values);

/// Rows of a tensor at this size.
inline std::int64_t row_count(const Tensor& tensor, std::size_t size) {
  return tensor.counts[size] / tensor.shape.channels;
}

}  // namespace evenstep::kernels::onednn
