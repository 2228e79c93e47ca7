// Products of full matrices, fp32, for processors with AVX2 and no AVX-512. oneDNN's reach 40 to 90
// % of the peak there: they read a matrix where it lies, and rows of 4 KB, of which all begin at
// the same place of a cache, drive each other out of it.
//
// Both matrices are packed here, in blocks that fit the caches: the right one once for all rows of
// the left one (a layer's weights once a step). Sums of six rows by two vectors stay in registers
// over a block's depth. After Goto and van de Geijn, Anatomy of High-Performance Matrix
// Multiplication (2008).
#pragma once

#include <cstdint>

#include "kernels/onednn/context.h"
#include "kernels/onednn/matrix.h"

namespace evenstep::kernels::onednn {

class DenseProduct {
 public:
  /// Whether products with so many columns are faster so than oneDNN's.
  static bool suits(std::int64_t columns);

  /// For right matrices of at most so many rows and so many columns, a multiple of 16, packed into
  /// `region`.
  DenseProduct(Context& context, MemoryPlan::Region region, std::int64_t most_depth,
               std::int64_t columns);

  /// Packs `depth` rows, at least one, of the right matrix. They are there until something else
  /// comes into the region.
  void load(const Matrix& right, std::int64_t depth);

  /// What products are added to.
  struct Base {
    const float* biases = nullptr;  ///< one a column, of all rows
    const float* values = nullptr;  ///< where the results go, or another such matrix
  };
  /// results (rows x columns, side by side) = base + left (rows x depth) x the right matrix.
  void multiply(const Matrix& left, std::int64_t rows, const Base& base, float* results) const;

 private:
  float* panels(std::int64_t block) const;
  std::int64_t block_depth(std::int64_t block) const;

  std::int64_t columns_;
  std::int64_t depth_ = 0, blocks_ = 0;
  std::int64_t block_ = 0;  // depth of each block but the last
  dnnl::memory panels_;     // by block, 16 columns, row
};

}  // namespace evenstep::kernels::onednn
