// Products with a matrix that is half zeros, fp32: what comes out of a ReLU, and gradients that go
// into one. A dense product multiplies all the zeros.
//
// What is not zero is listed, row by row, in blocks of the product's depth that fit the first-level
// cache. Each entry of a list then adds a multiple of some columns of the other matrix, packed side
// by side, to sums that stay in registers over the list. Where nothing is zero that is about as
// fast as oneDNN's product. What is skipped is 0 x anything: infinities and NaN, too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/onednn/context.h"
#include "kernels/onednn/matrix.h"

namespace evenstep::kernels::onednn {

class SparseProduct {
 public:
  /// Columns of the right matrix that a list meets at a time: `vectors` (5 to 8) of `lanes` (8 with
  /// AVX2, 16 with AVX-512) floats.
  struct Panel {
    std::int64_t lanes;
    std::int64_t vectors;
    std::int64_t width() const { return lanes * vectors; }
  };
  /// The panel for products with so many columns, a multiple of its width; none: leave them to
  /// oneDNN.
  static std::optional<Panel> panel_for(std::int64_t columns);

  /// For left matrices of at most so many rows and columns.
  SparseProduct(Context& context, Panel panel, std::int64_t most_rows, std::int64_t most_depth);

  /// Lists rows x depth values (at least one) less `backgrounds[row]`, where that is given: the
  /// value that most of a row has. All products of a context list into the same memory: multiply
  /// before another one lists.
  void list(const Matrix& left, std::int64_t rows, std::int64_t depth,
            const float* backgrounds = nullptr);

  /// results (rows x columns, `columns` apart) = listed x right (depth x columns); `add`: +=.
  void multiply(const Matrix& right, std::int64_t columns, bool add, float* results) const;

  /// The entries of a row: values, and in bytes the places of their rows in the panel.
  struct List {
    float* values;
    std::uint16_t* places;
  };

 private:
  List list_of(std::int64_t block, std::int64_t row) const;
  void list_block(const Matrix& left, const float* backgrounds, std::int64_t block);
  std::int64_t block_depth(std::int64_t block) const;

  Panel panel_;
  std::int64_t most_block_;
  std::int64_t rows_ = 0, depth_ = 0, blocks_ = 0;
  std::int64_t block_ = 0;  // depth of each block but the last
  std::int64_t most_entries_;
  dnnl::memory entries_;  // all values, by block and row, then all places
  std::vector<std::int32_t> lengths_;
};

}  // namespace evenstep::kernels::onednn
