// What causal attention does with one head of one sequence, in fp32, on matrices whose sides are
// padded with zeros to whole vectors. Rows are aligned to a vector. A block of query rows sees only
// the keys up to its own end, so that nearly half of the work is never done.
#pragma once

#include <cstdint>

#include "kernels/onednn/bf16.h"

namespace evenstep::kernels::onednn::attention_loops {

constexpr std::int64_t lanes = 16;
constexpr std::int64_t block_rows = 32;  ///< queries taken together

constexpr std::int64_t padded(std::int64_t count) { return (count + lanes - 1) / lanes * lanes; }

/// Rows of a matrix in memory.
template <typename T>
struct Rows {
  T* first;
  std::int64_t stride;
};

/// The left side of a product: value (m, k) is first[m * row + k * step].
struct Left {
  const float* first;
  std::int64_t row;
  std::int64_t step;
};

/// to[m][n] = sum over k < depth of left(m, k) right[k][n], or adds it. `rows` is a multiple of 4,
/// `columns` of 16.
void multiply(Left left, Rows<const float> right, Rows<float> to, std::int64_t rows,
              std::int64_t columns, std::int64_t depth, bool add);

/// Copies tokens x features values times `scale` to padded rows, and adds zeros.
void pack(Rows<const float> from, std::int64_t tokens, std::int64_t features, float scale,
          Rows<float> to);
void pack(Rows<const Bf16> from, std::int64_t tokens, std::int64_t features, float scale,
          Rows<float> to);
/// The way back, row t times scales[t], unless that is null.
void unpack(Rows<const float> from, std::int64_t tokens, std::int64_t features, const float* scales,
            Rows<float> to);
void unpack(Rows<const float> from, std::int64_t tokens, std::int64_t features, const float* scales,
            Rows<Bf16> to);

/// to[column][row] = from[row][column]; both numbers are multiples of 16.
void transpose(Rows<const float> from, std::int64_t rows, std::int64_t columns, Rows<float> to);

/// scores[r][c] becomes exp(scores[r][c] - largest of the row's), 0 where c > first + r. What the
/// row must be multiplied by to sum to 1 goes to `scales`, the logarithm of the sum of exp(scores)
/// to `logarithms`.
void softmax(Rows<float> scores, std::int64_t first, std::int64_t rows, std::int64_t columns,
             float* scales, float* logarithms);

/// With the logarithms of softmax(): scores become probabilities, and gradients of probabilities
/// those of scores. `sums` is each row's sum of probability x gradient.
void softmax_backward(Rows<float> scores, Rows<float> gradients, std::int64_t first,
                      std::int64_t rows, std::int64_t columns, const float* logarithms,
                      const float* sums);

/// sums[r] = sum over c of a[r][c] b[r][c].
void row_products(Rows<const float> a, Rows<const float> b, std::int64_t rows, std::int64_t columns,
                  float* sums);

}  // namespace evenstep::kernels::onednn::attention_loops
