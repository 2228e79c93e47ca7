// How a matrix of floats lies in memory, for products of our own.
#pragma once

#include <cstdint>

namespace evenstep::kernels::onednn {

/// Floats from a row to the next, and from a column to the next. One of them is 1.
struct Matrix {
  const float* first;
  std::int64_t row_step;
  std::int64_t column_step;

  Matrix from_corner(std::int64_t row, std::int64_t column) const {
    return {first + row * row_step + column * column_step, row_step, column_step};
  }
};

/// Copies rows x columns of a matrix, from its corner on, row by row and side by side.
void pack(const Matrix& matrix, std::int64_t rows, std::int64_t columns, float* to);

}  // namespace evenstep::kernels::onednn
