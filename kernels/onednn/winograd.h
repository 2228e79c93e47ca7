// 3x3 convolutions by Winograd's minimal filtering, F(2x2, 3x3), fp32 (Lavin and Gray, Fast
// Algorithms for Convolutional Neural Networks, CVPR 2016): forward, and backward to both input and
// weights. A tile of 2x2 outputs takes 16 multiplications instead of 36, and some additions.
//
//   Y = A' [(G g G') . (B' d B)] A      d: 4x4 inputs, g: 3x3 weights, Y: 2x2 outputs
//
// The products in brackets are sums over input channels: one matrix product for each of the 16
// places of a tile. Backward to the input is a convolution with the weights turned around; backward
// to the weights is G' [sum of (B' d B) . (A dY A')] G. An infinite or NaN value makes NaN of all
// its tiles, where a plain convolution would leave some of their pixels as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/layers.h"
#include "kernels/onednn/context.h"

namespace evenstep::kernels::onednn {

class Winograd {
 public:
  /// Of a convolution with stride and padding 1. Activations lie in blocks of `lanes` channels, 8
  /// (nChw8c) or 16 (nChw16c); channels are multiples of that.
  struct Shape {
    std::int64_t lanes;
    std::int64_t inputs, outputs;  ///< channels
    std::int64_t height, width;
  };

  /// Of this convolution; none where it cannot be done so or is not known to be faster than
  /// oneDNN's direct one. On AVX2 it is about 1.6 times as fast.
  static std::optional<Shape> shape_for(const Context& context, const Tensor& input,
                                        const Node& convolution);
  static dnnl::memory::format_tag layout(const Shape& shape);

  enum class Passes { forward, both };
  Winograd(Context& context, const Shape& shape, Passes passes);

  /// Plain weights: outputs x inputs x 3 x 3.
  void load(const float* weights);
  /// `biases`: null for none.
  void forward(const float* input, const float* biases, std::int64_t samples, float* output);
  void backward_input(const float* output_gradients, std::int64_t samples, float* input_gradients);
  /// Adds a chunk's weight gradients to the share's sums, which begin with it if it is the first;
  /// if it is the last, writes them to `gradients`, plain.
  void backward_weights(const float* input, const float* output_gradients, std::int64_t samples,
                        Network::Pass pass, float* gradients);

 private:
  /// One of the two convolutions, by its channels and transformed weights.
  struct Convolution {
    std::int64_t inputs, outputs;
    dnnl::memory weights;
  };
  struct Scratch {
    float* inputs;   // transformed: places x tiles x channels
    float* outputs;  // places x channels / lanes x tiles x lanes
    float* rows;     // of one row of tiles on its way
  };

  Convolution make_convolution(Context& context, std::int64_t inputs, std::int64_t outputs);
  Scratch scratch() const;
  void transform_weights(const float* weights, bool backward);
  void convolve(const Convolution& convolution, const float* input, const float* biases,
                std::int64_t samples, float* output);
  // Of rows of tiles [row, row + count) of all samples, one sample's after another's.
  void transform_inputs(const float* input, std::int64_t channels, std::int64_t row,
                        std::int64_t count, const Scratch& to) const;
  void transform_outputs(const Scratch& from, std::int64_t channels, const float* biases,
                         std::int64_t row, std::int64_t count, float* output) const;
  void transform_gradients(const float* output_gradients, std::int64_t row, std::int64_t count,
                           const Scratch& to) const;
  void sum_weights(const float* input, const float* output_gradients, std::int64_t first,
                   std::int64_t last);
  std::int64_t tiles(std::int64_t rows) const { return rows * tile_columns_; }

  Shape shape_;
  std::int64_t tile_rows_, tile_columns_;  // of a sample
  std::int64_t strip_;                     // rows of tiles that are worked on together
  Passes passes_;
  Convolution forward_, backward_;
  int threads_;               // at most
  dnnl::memory weight_sums_;  // of gradients, laid out as forward_'s weights, of each thread
  std::int64_t scratch_floats_;
  dnnl::memory scratch_;  // a part a thread
  std::vector<float> zeros_;
};

}  // namespace evenstep::kernels::onednn
