#include "kernels/onednn/attention_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/onednn/exponential.h"
#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn::attention_loops {
namespace {

constexpr std::int64_t tile_rows = 4;

using Row = Vector<lanes>;

/// Sums in registers: of AVX-512's 32, 4 rows of 4 vectors, or of AVX2's 16, 4 of 2, enough to hide
/// a multiply-add's wait.
template <int width, int vectors>
EVENSTEP_INLINE void multiply_tile(Left left, Rows<const float> right, Rows<float> to,
                                   std::int64_t depth, bool add) {
  Vector<width> sums[tile_rows][vectors] = {}, factors[vectors];
  if (add) {
#pragma GCC unroll 4
    for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) load(to.first + r * to.stride + v * width, sums[r][v]);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) load(right.first + k * right.stride + v * width, factors[v]);
#pragma GCC unroll 4
    for (int r = 0; r < tile_rows; ++r) {
      const float value = left.first[r * left.row + k * left.step];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] += value * factors[v];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(sums[r][v], to.first + r * to.stride + v * width);
  }
}

/// All rows, for `width` x `vectors` columns at a time, from column `first` on; returns the first
/// column that is left.
template <int width, int vectors>
EVENSTEP_INLINE std::int64_t multiply_columns(Left left, Rows<const float> right, Rows<float> to,
                                              std::int64_t rows, std::int64_t first,
                                              std::int64_t columns, std::int64_t depth, bool add) {
  std::int64_t n = first;
  for (; n + width * vectors <= columns; n += width * vectors) {
    for (std::int64_t m = 0; m < rows; m += tile_rows) {
      multiply_tile<width, vectors>({left.first + m * left.row, left.row, left.step},
                                    {right.first + n, right.stride},
                                    {to.first + m * to.stride + n, to.stride}, depth, add);
    }
  }
  return n;
}

template <typename T>
EVENSTEP_INLINE void pack_body(Rows<const T> from, std::int64_t tokens, std::int64_t features,
                               float scale, Rows<float> to) {
  for (std::int64_t t = 0; t < padded(tokens); ++t) {
    const T* __restrict source = from.first + t * from.stride;
    float* __restrict target = to.first + t * to.stride;
    const std::int64_t filled = t < tokens ? features : 0;
    for (std::int64_t i = 0; i < filled; ++i) target[i] = widen(source[i]) * scale;
    for (std::int64_t i = filled; i < padded(features); ++i) target[i] = 0;
  }
}

template <typename T>
EVENSTEP_INLINE void unpack_body(Rows<const float> from, std::int64_t tokens, std::int64_t features,
                                 const float* scales, Rows<T> to) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* __restrict source = from.first + t * from.stride;
    T* __restrict target = to.first + t * to.stride;
    const float scale = scales != nullptr ? scales[t] : 1;
    for (std::int64_t i = 0; i < features; ++i) narrow(source[i] * scale, target[i]);
  }
}

/// One stage of the transposition of a square of 16: of each two rows `distance` apart, parts that
/// wide change places.
template <int distance, std::size_t... lane>
EVENSTEP_INLINE void exchange(Row& a, Row& b, std::index_sequence<lane...> /*lanes*/) {
  const Row upper =
      __builtin_shufflevector(a, b, ((lane & distance) ? 16 + lane - distance : lane)...);
  b = __builtin_shufflevector(a, b, ((lane & distance) ? 16 + lane : lane + distance)...);
  a = upper;
}

template <int distance>
EVENSTEP_INLINE void exchange_rows(Row (&rows)[lanes]) {
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) {
    if ((r & distance) == 0)
      exchange<distance>(rows[r], rows[r + distance], std::make_index_sequence<lanes>());
  }
}

EVENSTEP_INLINE void transpose_square(Rows<const float> from, Rows<float> to) {
  Row rows[lanes];
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) load(from.first + r * from.stride, rows[r]);
  exchange_rows<8>(rows);
  exchange_rows<4>(rows);
  exchange_rows<2>(rows);
  exchange_rows<1>(rows);
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) store(rows[r], to.first + r * to.stride);
}

/// Whole vectors that hold the keys 0 .. query.
EVENSTEP_INLINE int seen_columns(std::int64_t query, std::int64_t columns) {
  return static_cast<int>(std::min(padded(query + 1), columns));
}

}  // namespace

EVENSTEP_MULTIVERSION void multiply(Left left, Rows<const float> right, Rows<float> to,
                                    std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                    bool add) {
  if (!has_avx512()) {
    multiply_columns<8, 2>(left, right, to, rows, 0, columns, depth, add);
    return;
  }
  std::int64_t n = multiply_columns<16, 4>(left, right, to, rows, 0, columns, depth, add);
  n = multiply_columns<16, 2>(left, right, to, rows, n, columns, depth, add);
  multiply_columns<16, 1>(left, right, to, rows, n, columns, depth, add);
}

EVENSTEP_MULTIVERSION void pack(Rows<const float> from, std::int64_t tokens, std::int64_t features,
                                float scale, Rows<float> to) {
  pack_body(from, tokens, features, scale, to);
}
EVENSTEP_MULTIVERSION void pack(Rows<const Bf16> from, std::int64_t tokens, std::int64_t features,
                                float scale, Rows<float> to) {
  pack_body(from, tokens, features, scale, to);
}

EVENSTEP_MULTIVERSION void unpack(Rows<const float> from, std::int64_t tokens,
                                  std::int64_t features, const float* scales, Rows<float> to) {
  unpack_body(from, tokens, features, scales, to);
}
EVENSTEP_MULTIVERSION void unpack(Rows<const float> from, std::int64_t tokens,
                                  std::int64_t features, const float* scales, Rows<Bf16> to) {
  unpack_body(from, tokens, features, scales, to);
}

EVENSTEP_MULTIVERSION void transpose(Rows<const float> from, std::int64_t rows,
                                     std::int64_t columns, Rows<float> to) {
  for (std::int64_t r = 0; r < rows; r += lanes) {
    for (std::int64_t c = 0; c < columns; c += lanes) {
      transpose_square({from.first + r * from.stride + c, from.stride},
                       {to.first + c * to.stride + r, to.stride});
    }
  }
}

EVENSTEP_MULTIVERSION void softmax(Rows<float> scores, std::int64_t first, std::int64_t rows,
                                   std::int64_t columns, float* scales, float* logarithms) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* __restrict row = scores.first + r * scores.stride;
    const int last = static_cast<int>(first + r);
    const int seen = seen_columns(last, columns);
    float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
    for (int c = 0; c < seen; ++c) {
      const float score = c <= last ? row[c] : -std::numeric_limits<float>::infinity();
      largest = std::max(largest, score);
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int c = 0; c < seen; ++c) {
      const float value = exponential(row[c] - largest);
      row[c] = c <= last ? value : 0;
      sum += row[c];
    }
    for (int c = seen; c < columns; ++c) row[c] = 0;
    scales[r] = 1 / sum;
    logarithms[r] = largest + std::log(sum);
  }
}

EVENSTEP_MULTIVERSION void softmax_backward(Rows<float> scores, Rows<float> gradients,
                                            std::int64_t first, std::int64_t rows,
                                            std::int64_t columns, const float* logarithms,
                                            const float* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* __restrict row = scores.first + r * scores.stride;
    float* __restrict slopes = gradients.first + r * gradients.stride;
    const int last = static_cast<int>(first + r);
    const int seen = seen_columns(last, columns);
    for (int c = 0; c < seen; ++c) {
      const float probability = exponential(row[c] - logarithms[r]);
      row[c] = c <= last ? probability : 0;
      slopes[c] = row[c] * (slopes[c] - sums[r]);
    }
    for (int c = seen; c < columns; ++c) row[c] = slopes[c] = 0;
  }
}

EVENSTEP_MULTIVERSION void row_products(Rows<const float> a, Rows<const float> b, std::int64_t rows,
                                        std::int64_t columns, float* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < columns; ++c)
      sum += a.first[r * a.stride + c] * b.first[r * b.stride + c];
    sums[r] = sum;
  }
}

}  // namespace evenstep::kernels::onednn::attention_loops
