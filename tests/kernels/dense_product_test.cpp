// DenseProduct against plain sums in double: on any processor, though networks take it only where
// it is fast.
#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/onednn/dense_product.h"

namespace evenstep::kernels::onednn {
namespace {

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

/// rows x columns values, either of which may lie in one piece, with a gap behind each piece.
struct Plain {
  Plain(std::int64_t rows, std::int64_t columns, Random& random)
      : by_columns(random.coin()), step((by_columns ? rows : columns) + random.up_to(9) - 1) {
    values = random.numbers(step * (by_columns ? columns : rows));
  }
  Matrix matrix() const { return {values.data(), by_columns ? 1 : step, by_columns ? step : 1}; }
  double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(by_columns ? column * step + row : row * step + column)];
  }
  bool by_columns;
  std::int64_t step;
  Values values;
};

/// One product of random layout; base: none, biases, the results themselves, or others.
void check(DenseProduct& product, std::int64_t rows, std::int64_t depth, std::int64_t columns,
           Random& random) {
  const Plain left(rows, depth, random);
  const Plain right(depth, columns, random);
  const Values biases = random.numbers(columns);
  const Values others = random.numbers(rows * columns);
  const Values before = random.numbers(rows * columns);
  Values results = before;
  const bool has_biases = random.coin();
  const Values* values = random.coin() ? nullptr : random.coin() ? &others : &results;
  const Values* added = values == &results ? &before : values;

  product.load(right.matrix(), depth);
  product.multiply(
      left.matrix(), rows,
      {has_biases ? biases.data() : nullptr, values != nullptr ? values->data() : nullptr},
      results.data());

  CAPTURE(rows);
  CAPTURE(depth);
  CAPTURE(columns);
  CAPTURE(left.by_columns);
  CAPTURE(right.by_columns);
  double worst = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto place = static_cast<std::size_t>(row * columns + column);
      double sum = has_biases ? biases[static_cast<std::size_t>(column)] : 0;
      if (added != nullptr) sum += (*added)[place];
      for (std::int64_t k = 0; k < depth; ++k) sum += left.at(row, k) * right.at(k, column);
      worst = std::max(worst, std::abs(sum - results[place]));
    }
  }
  // Sums of up to 600 products of about 1: their rounding comes to some 1e-5.
  CHECK(worst < 1e-3);
}

TEST_CASE("products of any size and layout, on one thread and on three") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  Random random{std::mt19937(seed)};
  const int threads = omp_get_max_threads();
  for (int i = 0; i < 100; ++i) {
    omp_set_num_threads(random.coin() ? 1 : 3);
    const std::int64_t columns = 16 * random.up_to(4);
    Context context(ChunkMenu(1), Dtype::f32);
    DenseProduct product(context, context.product_scratch, 600, columns);
    context.plan.commit();
    for (int j = 0; j < 3; ++j)
      check(product, random.up_to(random.coin() ? 13 : 230), random.up_to(random.coin() ? 9 : 600),
            columns, random);
  }
  omp_set_num_threads(threads);
}

TEST_CASE("a row's bits do not depend on the rows beside it") {
  Random random{std::mt19937(1)};
  constexpr std::int64_t rows = 20, depth = 300, columns = 32;
  Context context(ChunkMenu(1), Dtype::f32);
  DenseProduct product(context, context.product_scratch, depth, columns);
  context.plan.commit();
  const Values left = random.numbers(rows * depth);
  const Values right = random.numbers(depth * columns);
  Values all(static_cast<std::size_t>(rows * columns)), one(static_cast<std::size_t>(columns));
  product.load({right.data(), columns, 1}, depth);
  product.multiply({left.data(), depth, 1}, rows, {}, all.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    product.multiply({left.data() + row * depth, depth, 1}, 1, {}, one.data());
    CAPTURE(row);
    CHECK(std::equal(one.begin(), one.end(), all.begin() + row * columns));
  }
}

}  // namespace
}  // namespace evenstep::kernels::onednn
