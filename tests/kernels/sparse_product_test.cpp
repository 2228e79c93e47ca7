// SparseProduct with all its panels against plain sums in double: on any processor, though networks
// take each panel only where it is fast.
#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "kernels/onednn/sparse_product.h"
#include "tests/kernels/random_matrix.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr std::int64_t most_rows = 9;
constexpr std::int64_t most_depth = 500;

/// One product of random size, layout and share of zeros.
void check(SparseProduct& product, SparseProduct::Panel panel, Random& random) {
  RandomMatrix left(random.up_to(most_rows), random.up_to(most_depth), random);
  RandomMatrix right(left.columns, panel.width() * random.up_to(3), random);
  const auto percent_zero = random.up_to(101) - 1;
  const Values backgrounds = random.numbers(random.coin() ? left.rows : 0);
  for (std::int64_t row = 0; row < left.rows; ++row)
    for (std::int64_t k = 0; k < left.columns; ++k)
      if (random.up_to(100) <= percent_zero)
        left.at(row, k) = backgrounds.empty() ? 0 : backgrounds[static_cast<std::size_t>(row)];
  const bool add = random.coin();
  Values results = random.numbers(left.rows * right.columns);
  const Values before = add ? results : Values();

  product.list(left.matrix(), left.rows, left.columns,
               backgrounds.empty() ? nullptr : backgrounds.data());
  product.multiply(right.matrix(), right.columns, add, results.data());

  CAPTURE(panel.lanes);
  CAPTURE(panel.vectors);
  CAPTURE(left.rows);
  CAPTURE(left.columns);
  CAPTURE(right.columns);
  // Sums of up to 500 products of about 1 or 2: their rounding comes to some 1e-5.
  CHECK(worst_difference(results, left, right, before, backgrounds, {}) < 1e-3);
}

TEST_CASE("zeros skipped, every product is that of all values, on one thread and on three") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  Random random{std::mt19937(seed)};
  const int threads = omp_get_max_threads();
  for (std::int64_t lanes : {8, 16}) {
    for (std::int64_t vectors : {5, 6, 7, 8}) {
      const SparseProduct::Panel panel{lanes, vectors};
      Context context(ChunkMenu(1), Dtype::f32);
      SparseProduct product(context, panel, most_rows, most_depth);
      context.plan.commit();
      for (int i = 0; i < 25; ++i) {
        omp_set_num_threads(random.coin() ? 1 : 3);
        check(product, panel, random);
      }
    }
  }
  omp_set_num_threads(threads);
}

TEST_CASE("blocks cover any depth") {
  const SparseProduct::Panel panel{16, 8};
  for (std::int64_t depth = 1; depth <= 400; ++depth) {
    Context context(ChunkMenu(1), Dtype::f32);
    SparseProduct product(context, panel, 1, depth);
    context.plan.commit();
    const Values left(static_cast<std::size_t>(depth), 1);
    const Values right(static_cast<std::size_t>(depth * panel.width()), 1);
    Values results(static_cast<std::size_t>(panel.width()));
    product.list({left.data(), depth, 1}, 1, depth);
    product.multiply({right.data(), panel.width(), 1}, panel.width(), false, results.data());
    CAPTURE(depth);
    CHECK(results.front() == static_cast<float>(depth));
    CHECK(results.back() == static_cast<float>(depth));
  }
}

TEST_CASE("a NaN is something, and reaches its row alone; what meets zeros only is skipped") {
  // The first eight values of a row are listed together, the others one by one.
  constexpr std::int64_t depth = 11;
  const SparseProduct::Panel panel{8, 5};
  for (std::int64_t nan : {2, 9}) {
    for (std::int64_t zero : {1, 5, 8, 10}) {
      Context context(ChunkMenu(1), Dtype::f32);
      SparseProduct product(context, panel, 2, depth);
      context.plan.commit();
      Values left(2 * depth, 1);
      left[static_cast<std::size_t>(nan)] = NAN;
      left[static_cast<std::size_t>(zero)] = 0;
      left[static_cast<std::size_t>(depth + zero)] = -0.0f;
      Values right(static_cast<std::size_t>(depth * panel.width()), 1);
      std::fill_n(right.begin() + zero * panel.width(), panel.width(), INFINITY);
      Values results(static_cast<std::size_t>(2 * panel.width()));
      product.list({left.data(), depth, 1}, 2, depth);
      product.multiply({right.data(), panel.width(), 1}, panel.width(), false, results.data());
      CAPTURE(nan);
      CAPTURE(zero);
      CHECK(std::isnan(results.front()));
      CHECK(results.back() == depth - 1);
    }
  }
}

}  // namespace
}  // namespace evenstep::kernels::onednn
