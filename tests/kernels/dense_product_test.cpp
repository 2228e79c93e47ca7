// DenseProduct against plain sums in double: on any processor, though networks take it only where
// it is fast.
#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "kernels/onednn/dense_product.h"
#include "tests/kernels/random_matrix.h"

namespace evenstep::kernels::onednn {
namespace {

/// One product of random layout; base: none, biases, the results themselves, or others.
void check(DenseProduct& product, std::int64_t rows, std::int64_t depth, std::int64_t columns,
           Random& random) {
  RandomMatrix left(rows, depth, random);
  RandomMatrix right(depth, columns, random);
  const Values biases = random.numbers(random.coin() ? columns : 0);
  const Values others = random.numbers(rows * columns);
  Values results = random.numbers(rows * columns);
  const Values* values = random.coin() ? nullptr : random.coin() ? &others : &results;
  const Values added = values != nullptr ? *values : Values();

  product.load(right.matrix(), depth);
  product.multiply(
      left.matrix(), rows,
      {biases.empty() ? nullptr : biases.data(), values != nullptr ? values->data() : nullptr},
      results.data());

  CAPTURE(rows);
  CAPTURE(depth);
  CAPTURE(columns);
  CAPTURE(left.by_columns);
  CAPTURE(right.by_columns);
  // Sums of up to 600 products of about 1: their rounding comes to some 1e-5.
  CHECK(worst_difference(results, left, right, added, {}, biases) < 1e-3);
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
