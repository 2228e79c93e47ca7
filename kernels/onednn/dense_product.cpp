#include "kernels/onednn/dense_product.h"

#include <algorithm>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn {
namespace {

using Base = DenseProduct::Base;

constexpr int lanes = 8;
constexpr int tile_rows = 6;  // by two vectors: sums in 12 of 16 registers
constexpr std::int64_t panel_columns = 2 * lanes;
constexpr std::int64_t most_block_depth = 256;  // a panel of 16 KB: half of a first-level cache
constexpr std::int64_t block_rows = 16 * tile_rows;
// From a row to the next of a packed left matrix: not a power of two, for the cache's sake.
constexpr std::int64_t row_pitch = most_block_depth + 16;

/// How a block of the left matrix is packed: as it lies, in long copies.
enum class Order {
  by_row,    // row after row
  by_column  // six rows at a time, of these column after column
};

template <Order order>
EVENSTEP_INLINE float left_value(const float* tile, std::int64_t row, std::int64_t k) {
  return order == Order::by_row ? tile[row * row_pitch + k] : tile[k * tile_rows + row];
}

/// rows x 16 results = base + rows of the left matrix x a panel.
template <int rows, Order order>
EVENSTEP_INLINE void multiply_tile(const float* left, const float* panel, std::int64_t depth,
                                   const Base& base, std::int64_t columns, float* results) {
  Vector<lanes> sums[rows][2] = {}, factors[2], bias;
  if (base.values != nullptr) {
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row)
      for (int v = 0; v < 2; ++v) load(base.values + row * columns + v * lanes, sums[row][v]);
  }
  if (base.biases != nullptr) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      load(base.biases + v * lanes, bias);
#pragma GCC unroll 6
      for (int row = 0; row < rows; ++row) sums[row][v] += bias;
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    load(panel + k * panel_columns, factors[0]);
    load(panel + k * panel_columns + lanes, factors[1]);
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
      const float value = left_value<order>(left, row, k);
      sums[row][0] += value * factors[0];
      sums[row][1] += value * factors[1];
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < rows; ++row) {
    store(sums[row][0], results + row * columns);
    store(sums[row][1], results + row * columns + lanes);
  }
}

template <Order order>
EVENSTEP_INLINE void multiply_rows(std::int64_t rows, const float* left, const float* panel,
                                   std::int64_t depth, const Base& base, std::int64_t columns,
                                   float* results) {
  switch (rows) {
    case 1:
      return multiply_tile<1, order>(left, panel, depth, base, columns, results);
    case 2:
      return multiply_tile<2, order>(left, panel, depth, base, columns, results);
    case 3:
      return multiply_tile<3, order>(left, panel, depth, base, columns, results);
    case 4:
      return multiply_tile<4, order>(left, panel, depth, base, columns, results);
    case 5:
      return multiply_tile<5, order>(left, panel, depth, base, columns, results);
    default:
      return multiply_tile<tile_rows, order>(left, panel, depth, base, columns, results);
  }
}

/// All panels of a block meet some packed rows.
template <Order order>
EVENSTEP_INLINE void multiply_panels(std::int64_t rows, const float* left, const float* panels,
                                     std::int64_t depth, const Base& base, std::int64_t columns,
                                     float* results) {
  constexpr std::int64_t tile = tile_rows * (order == Order::by_row ? row_pitch : 1);
  for (std::int64_t column = 0; column < columns; column += panel_columns) {
    for (std::int64_t row = 0; row < rows; row += tile_rows) {
      const std::int64_t corner = row * columns + column;
      const Base here{base.biases != nullptr ? base.biases + column : nullptr,
                      base.values != nullptr ? base.values + corner : nullptr};
      const float* values = left + row / tile_rows * (order == Order::by_row ? tile : tile * depth);
      multiply_rows<order>(std::min<std::int64_t>(rows - row, tile_rows), values,
                           panels + column * depth, depth, here, columns, results + corner);
    }
  }
}

EVENSTEP_MULTIVERSION void multiply_block(Order order, std::int64_t rows, const float* left,
                                          const float* panels, std::int64_t depth, const Base& base,
                                          std::int64_t columns, float* results) {
  if (order == Order::by_row)
    multiply_panels<Order::by_row>(rows, left, panels, depth, base, columns, results);
  else
    multiply_panels<Order::by_column>(rows, left, panels, depth, base, columns, results);
}

void pack_rows(const Matrix& left, std::int64_t rows, std::int64_t depth, float* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(left.first + row * left.row_step, depth, to + row * row_pitch);
}

void pack_columns(const Matrix& left, std::int64_t rows, std::int64_t depth, float* to) {
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* column = left.first + k * left.column_step;
    float* place = to + k * tile_rows;
    std::int64_t row = 0;
    for (; row + tile_rows <= rows; row += tile_rows, place += tile_rows * depth)
      std::copy_n(column + row, tile_rows, place);
    std::copy_n(column + row, rows - row, place);
  }
}

}  // namespace

bool DenseProduct::suits(std::int64_t columns) {
  return has_avx2() && !has_avx512() && columns % panel_columns == 0;
}

DenseProduct::DenseProduct(Context& context, MemoryPlan::Region region, std::int64_t most_depth,
                           std::int64_t columns)
    : columns_(columns),
      panels_(context.plan.view(
          region,
          {{most_depth, columns}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab})) {}

float* DenseProduct::panels(std::int64_t block) const {
  return data<float>(panels_) + block * block_ * columns_;
}

std::int64_t DenseProduct::block_depth(std::int64_t block) const {
  return std::min(block_, depth_ - block * block_);
}

void DenseProduct::load(const Matrix& right, std::int64_t depth) {
  depth_ = depth;
  blocks_ = (depth + most_block_depth - 1) / most_block_depth;
  block_ = (depth + blocks_ - 1) / blocks_;
  const std::int64_t panel_count = columns_ / panel_columns;
  loops::split_over_threads(panel_count, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = 0; block < blocks_; ++block) {
      for (std::int64_t panel = first; panel < last; ++panel) {
        pack(right.from_corner(block * block_, panel * panel_columns), block_depth(block),
             panel_columns, panels(block) + panel * panel_columns * block_depth(block));
      }
    }
  });
}

void DenseProduct::multiply(const Matrix& left, std::int64_t rows, const Base& base,
                            float* results) const {
  const Order order = left.column_step == 1 ? Order::by_row : Order::by_column;
  const auto run = [&](std::int64_t first_tile, std::int64_t last_tile) {
    alignas(64) float packed[block_rows * row_pitch];
    const std::int64_t end = std::min(last_tile * tile_rows, rows);
    for (std::int64_t row = first_tile * tile_rows; row < end; row += block_rows) {
      const std::int64_t count = std::min(block_rows, end - row);
      Base here{base.biases, base.values != nullptr ? base.values + row * columns_ : nullptr};
      for (std::int64_t block = 0; block < blocks_; ++block) {
        const Matrix corner = left.from_corner(row, block * block_);
        if (order == Order::by_row)
          pack_rows(corner, count, block_depth(block), packed);
        else
          pack_columns(corner, count, block_depth(block), packed);
        multiply_block(order, count, packed, panels(block), block_depth(block), here, columns_,
                       results + row * columns_);
        here = {.values = results + row * columns_};
      }
    }
  };
  loops::split_over_threads((rows + tile_rows - 1) / tile_rows, 1, run);
}

}  // namespace evenstep::kernels::onednn
