// The loops of winograd.h's convolutions, of images in blocks of channels.
#pragma once

#include <cstdint>

namespace evenstep::kernels::onednn::winograd_loops {

constexpr int places = 16;  // of a tile, 4x4
constexpr int taps = 9;
constexpr int most_lanes = 16;

/// Blocks of output channels whose sums are formed together: their weights lie side by side.
inline std::int64_t pair_of(std::int64_t blocks) { return blocks % 2 == 0 ? 2 : 1; }

/// The product at one place of a strip's tiles.
struct Product {
  std::int64_t lanes;
  std::int64_t inputs;  // channels
  std::int64_t blocks;  // of output channels
  std::int64_t tiles;
  float* input_values;   // tiles x inputs
  float* output_values;  // blocks x tiles x lanes
  float* weights;        // blocks / pair x inputs x pair x lanes
};

/// output_values = input_values x weights.
void multiply(const Product& p);
/// weights += input_values transposed x output_values.
void sum_products(const Product& p);

/// One row of tiles, of one block of channels.
struct TileRow {
  std::int64_t lanes;
  std::int64_t width;    // of the image
  std::int64_t columns;  // of tiles
  float* tiles;          // the first one's, at the first place
  std::int64_t place_step;
  std::int64_t tile_step;
};

/// B' d B, from four rows of the image. `rows` has room for 4 x (2 x columns + 2) vectors.
void transform_input_row(const TileRow& row, const float* const (&image)[4], float* rows);
/// A' m A and biases, if any, to two rows of the image; the second may be missing.
void transform_output_row(const TileRow& row, const float* biases, float* const (&image)[2]);
/// A dY A', from two rows of the image.
void transform_gradient_row(const TileRow& row, const float* const (&image)[2]);

/// G g G', of as many windows as a vector has lanes: places x place_step from taps x lanes.
void transform_windows(std::int64_t lanes, const float* windows, float* to,
                       std::int64_t place_step);
/// G' u G, the other way.
void transform_window_gradients(std::int64_t lanes, const float* from, std::int64_t place_step,
                                float* windows);

}  // namespace evenstep::kernels::onednn::winograd_loops
