#include "kernels/onednn/matrix.h"

#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn {
namespace {

/// to[r][c] = from[c][r], 4 x 4 at a time; rows and columns are those of `to`.
EVENSTEP_MULTIVERSION void transpose(const float* from, std::int64_t from_step, std::int64_t rows,
                                     std::int64_t columns, float* to, std::int64_t to_step) {
  std::int64_t c = 0;
  for (; c + 4 <= columns; c += 4) {
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      Vector<4> column[4];
      for (int i = 0; i < 4; ++i) load(from + (c + i) * from_step + r, column[i]);
      const auto low = __builtin_shufflevector(column[0], column[1], 0, 4, 1, 5);
      const auto high = __builtin_shufflevector(column[0], column[1], 2, 6, 3, 7);
      const auto next_low = __builtin_shufflevector(column[2], column[3], 0, 4, 1, 5);
      const auto next_high = __builtin_shufflevector(column[2], column[3], 2, 6, 3, 7);
      float* corner = to + r * to_step + c;
      store(__builtin_shufflevector(low, next_low, 0, 1, 4, 5), corner);
      store(__builtin_shufflevector(low, next_low, 2, 3, 6, 7), corner + to_step);
      store(__builtin_shufflevector(high, next_high, 0, 1, 4, 5), corner + 2 * to_step);
      store(__builtin_shufflevector(high, next_high, 2, 3, 6, 7), corner + 3 * to_step);
    }
    for (; r < rows; ++r)
      for (int i = 0; i < 4; ++i) to[r * to_step + c + i] = from[(c + i) * from_step + r];
  }
  for (; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) to[r * to_step + c] = from[c * from_step + r];
}

/// In vectors: a call of memcpy would take longer than the few that a panel's row has.
EVENSTEP_MULTIVERSION void copy(const float* from, std::int64_t from_step, std::int64_t rows,
                                std::int64_t columns, float* to) {
  Vector<8> values;
  for (std::int64_t row = 0; row < rows; ++row, from += from_step, to += columns) {
    std::int64_t c = 0;
    for (; c + 8 <= columns; c += 8) {
      load(from + c, values);
      store(values, to + c);
    }
    for (; c < columns; ++c) to[c] = from[c];
  }
}

}  // namespace

void pack(const Matrix& matrix, std::int64_t rows, std::int64_t columns, float* to) {
  if (matrix.column_step == 1)
    copy(matrix.first, matrix.row_step, rows, columns, to);
  else
    transpose(matrix.first, matrix.column_step, rows, columns, to, columns);
}

}  // namespace evenstep::kernels::onednn
