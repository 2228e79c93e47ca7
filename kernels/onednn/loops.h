// Element-wise loops that beat oneDNN's primitives at the sizes of a chunk, since they are cheaper
// to start. bf16 values are handled by their bits, as uint16_t. None allocates.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/onednn/bf16.h"

namespace evenstep::kernels::onednn::loops {

using onednn::Bf16;

/// Rounds to nearest, ties to even; keeps infinities; a NaN stays one.
void to_bf16(const float* from, Bf16* to, std::int64_t count);

/// max(x, 0) in place; a NaN stays one.
void relu(float* values, std::int64_t count);
void relu(Bf16* values, std::int64_t count);

/// Clears the gradients of outputs that are not above zero, in place.
void relu_backward(const float* outputs, float* gradients, std::int64_t count);
void relu_backward(const Bf16* outputs, Bf16* gradients, std::int64_t count);

/// sum += part.
void add(const float* part, float* sum, std::int64_t count);
void add(const Bf16* part, Bf16* sum, std::int64_t count);

/// sums[c] = sum over r of matrix[r][c].
void sum_columns(const float* matrix, std::int64_t rows, std::int64_t columns, float* sums);
void sum_columns(const Bf16* matrix, std::int64_t rows, std::int64_t columns, float* sums);

/// sums[r] = sum over c of matrix[r][c].
void sum_rows(const float* matrix, std::int64_t rows, std::int64_t columns, float* sums);

/// Calls run(first, last) on pieces of [0, count) of at least `grain`, one a thread, on `most`
/// threads at most.
template <typename Run>
void split_over_threads(std::int64_t count, std::int64_t grain, Run run,
                        int most = std::numeric_limits<int>::max()) {
  const std::int64_t threads = std::min<std::int64_t>(std::min(most, omp_get_max_threads()),
                                                      count / std::max<std::int64_t>(grain, 1));
  if (threads <= 1) {
    run(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    const std::int64_t mine = omp_get_thread_num();
    const std::int64_t team = omp_get_num_threads();
    run(count * mine / team, count * (mine + 1) / team);
  }
}

}  // namespace evenstep::kernels::onednn::loops
