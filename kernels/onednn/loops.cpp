#include "kernels/onednn/loops.h"

#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn::loops {
namespace {

/// Fewest elements worth a thread: about ten microseconds of work.
constexpr std::int64_t grain = 16384;

EVENSTEP_MULTIVERSION void to_bf16_part(const float* __restrict from, Bf16* __restrict to,
                                        std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = round_to_bf16(from[i]);
}

EVENSTEP_MULTIVERSION void relu_part(float* __restrict values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] < 0 ? 0 : values[i];
}

EVENSTEP_MULTIVERSION void relu_part(Bf16* __restrict values, std::int64_t count) {
  // Negative numbers are the bit patterns from -0 to -infinity; those above are NaN.
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = values[i] >= 0x8000 && values[i] <= 0xff80 ? Bf16{0} : values[i];
  }
}

EVENSTEP_MULTIVERSION void relu_backward_part(const float* __restrict outputs,
                                              float* __restrict gradients, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) gradients[i] = outputs[i] <= 0 ? 0 : gradients[i];
}

EVENSTEP_MULTIVERSION void relu_backward_part(const Bf16* __restrict outputs,
                                              Bf16* __restrict gradients, std::int64_t count) {
  // relu left no negative number but NaN: only +0 (and -0, were it kept) is not above zero.
  for (std::int64_t i = 0; i < count; ++i) {
    gradients[i] = (outputs[i] & 0x7fff) == 0 ? Bf16{0} : gradients[i];
  }
}

EVENSTEP_MULTIVERSION void add_part(const float* __restrict part, float* __restrict sum,
                                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += part[i];
}

EVENSTEP_MULTIVERSION void add_part(const Bf16* __restrict part, Bf16* __restrict sum,
                                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = round_to_bf16(widen(sum[i]) + widen(part[i]));
}

template <typename Value>
EVENSTEP_INLINE void sum_columns_body(const Value* __restrict matrix, std::int64_t rows,
                                      std::int64_t columns, float* __restrict sums) {
  for (std::int64_t c = 0; c < columns; ++c) sums[c] = 0;
  for (std::int64_t r = 0; r < rows; ++r, matrix += columns) {
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += widen(matrix[c]);
  }
}

}  // namespace

void to_bf16(const float* from, Bf16* to, std::int64_t count) {
  split_over_threads(count, grain, [=](std::int64_t first, std::int64_t last) {
    to_bf16_part(from + first, to + first, last - first);
  });
}

void relu(float* values, std::int64_t count) {
  split_over_threads(count, grain, [=](std::int64_t first, std::int64_t last) {
    relu_part(values + first, last - first);
  });
}

void relu(Bf16* values, std::int64_t count) {
  split_over_threads(count, grain, [=](std::int64_t first, std::int64_t last) {
    relu_part(values + first, last - first);
  });
}

void relu_backward(const float* outputs, float* gradients, std::int64_t count) {
  split_over_threads(count, grain, [=](std::int64_t first, std::int64_t last) {
    relu_backward_part(outputs + first, gradients + first, last - first);
  });
}

void relu_backward(const Bf16* outputs, Bf16* gradients, std::int64_t count) {
  split_over_threads(count, grain, [=](std::int64_t first, std::int64_t last) {
    relu_backward_part(outputs + first, gradients + first, last - first);
  });
}

void add(const float* part, float* sum, std::int64_t count) {
  split_over_threads(count, grain, [=](std::int64_t first, std::int64_t last) {
    add_part(part + first, sum + first, last - first);
  });
}

void add(const Bf16* part, Bf16* sum, std::int64_t count) {
  split_over_threads(count, grain, [=](std::int64_t first, std::int64_t last) {
    add_part(part + first, sum + first, last - first);
  });
}

EVENSTEP_MULTIVERSION void sum_columns(const float* matrix, std::int64_t rows, std::int64_t columns,
                                       float* sums) {
  sum_columns_body(matrix, rows, columns, sums);
}

EVENSTEP_MULTIVERSION void sum_columns(const Bf16* matrix, std::int64_t rows, std::int64_t columns,
                                       float* sums) {
  sum_columns_body(matrix, rows, columns, sums);
}

EVENSTEP_MULTIVERSION void sum_rows(const float* matrix, std::int64_t rows, std::int64_t columns,
                                    float* sums) {
  constexpr std::int64_t lanes = 32;
  for (std::int64_t r = 0; r < rows; ++r, matrix += columns) {
    float parts[lanes] = {};
    std::int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      for (std::int64_t i = 0; i < lanes; ++i) parts[i] += matrix[c + i];
    }
    float sum = 0;
    for (; c < columns; ++c) sum += matrix[c];
    for (float part : parts) sum += part;
    sums[r] = sum;
  }
}

}  // namespace evenstep::kernels::onednn::loops
