// Matrices of random numbers in random layouts, for tests of products.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/onednn/matrix.h"

namespace evenstep::kernels::onednn {

using Values = std::vector<float>;

struct Random {
  std::mt19937 bits;
  float number() { return std::normal_distribution<float>()(bits); }
  std::int64_t up_to(std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(bits);
  }
  bool coin() { return up_to(2) == 1; }
  Values numbers(std::int64_t count) {
    Values values(static_cast<std::size_t>(count));
    for (float& value : values) value = number();
    return values;
  }
};

/// rows x columns numbers. Rows or columns lie in one piece each, with a gap behind.
struct RandomMatrix {
  RandomMatrix(std::int64_t row_count, std::int64_t column_count, Random& random)
      : rows(row_count),
        columns(column_count),
        by_columns(random.coin()),
        step((by_columns ? rows : columns) + random.up_to(9) - 1),
        values(random.numbers(step * (by_columns ? columns : rows))) {}
  Matrix matrix() const { return {values.data(), by_columns ? 1 : step, by_columns ? step : 1}; }
  float& at(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(by_columns ? column * step + row : row * step + column)];
  }
  std::int64_t rows, columns;
  bool by_columns;
  std::int64_t step;
  Values values;
};

/// Of results (rows x columns of the two matrices) from before + (left less its rows' backgrounds)
/// x right + biases, in double. Empty `before`, `backgrounds`, `biases`: zeros.
inline double worst_difference(const Values& results, RandomMatrix& left, RandomMatrix& right,
                               const Values& before, const Values& backgrounds,
                               const Values& biases) {
  double worst = 0;
  for (std::int64_t row = 0; row < left.rows; ++row) {
    for (std::int64_t column = 0; column < right.columns; ++column) {
      const auto place = static_cast<std::size_t>(row * right.columns + column);
      const double background =
          backgrounds.empty() ? 0 : backgrounds[static_cast<std::size_t>(row)];
      double sum = before.empty() ? 0 : before[place];
      if (!biases.empty()) sum += biases[static_cast<std::size_t>(column)];
      for (std::int64_t k = 0; k < left.columns; ++k)
        sum += (left.at(row, k) - background) * right.at(k, column);
      worst = std::max(worst, std::abs(sum - results[place]));
    }
  }
  return worst;
}

}  // namespace evenstep::kernels::onednn
