// Backward of a 3x3 convolution under 2x2 max pooling, from the pooled gradients alone.
//
// At most one of each four convolution outputs has a gradient, the one that won its pool, and a
// ReLU behind the pool clears about half of these. A dense backward multiplies all the zeros. Here
// the gradients that are not zero are listed, one list an output channel of a sample, and each of
// them meets a window of 3x3 taps of some input channels: a quarter of the dense work at most.
//
// The vectors that a window is made of, or is multiplied with, stay in registers over a list: 18 of
// 16 floats, for 32 channels, with AVX-512's 32 registers; 9 of 8, for 8 channels, with AVX2's 16;
// 3 of 4, one of which is not used, for a plane of an image.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/onednn/context.h"

namespace evenstep::kernels::onednn {

class PooledGradients {
 public:
  /// What one list meets: windows of `channels` neighbouring channels, 32, 8 or 1 of them. Input
  /// channels must be a multiple of it, output channels of `lanes`, 16 or 8, which the
  /// output's layout has side by side.
  struct Shape {
    std::int64_t channels;
    std::int64_t lanes;
  };

  /// For convolutions from `input` to `out_channels`, all fp32. The input's layout is nChw16c (32),
  /// nChw8c (8) or nchw (1), the weights' aBcd32b (out channel, in channel / 32, 3, 3, 32), aBcd8b
  /// or abcd.
  PooledGradients(Context& context, const SampleShape& input, std::int64_t out_channels,
                  Shape shape);

  /// Lists what is not zero in `gradients`, of the pool's output; `winners` holds which of the four
  /// won each pool.
  void collect(const float* gradients, const std::uint32_t* winners, std::int64_t samples);

  /// Overwrites weight and bias gradients with those of the samples collected last, whose
  /// `gradients` must still be there.
  void weights(const float* input, float* weight_gradients, float* bias_gradients);
  /// Overwrites the input's gradients with those of the samples collected last. Not for a plain
  /// image.
  void input(const float* weights, float* input_gradients);

  struct Entry {
    std::int32_t offset;  ///< of the window's first float in a padded sample
    float gradient;
  };

 private:
  Entry* list(std::int64_t sample, std::int64_t channel);
  std::int32_t& length(std::int64_t sample, std::int64_t channel);
  float* padded(std::int64_t sample, std::int64_t group);
  void collect_channels(const float* gradients, const std::uint32_t* winners, std::int64_t sample,
                        std::int64_t block);
  /// Of the output channels of one block.
  void biases_of_block(float* bias_gradients, std::int64_t block);
  void weights_of_block(float* weight_gradients, std::int64_t block);
  void plane_weights_of_block(float* weight_gradients, std::int64_t block);

  const Context& context_;
  Shape shape_;
  std::int64_t height_, width_, out_channels_;
  std::int64_t groups_;               // of shape_.channels
  const float* gradients_ = nullptr;  // collected last, with
  std::int64_t samples_ = 0;
  std::int64_t row_;                   // floats of a padded row: (width + 2) x shape_.channels
  std::int64_t list_length_;           // with room for eight more than can be
  std::vector<std::int32_t> corners_;  // of each pool: its first window's offset
  std::vector<Entry> entries_;
  std::vector<std::int32_t> lengths_;
  /// Inputs, later their gradients: samples x groups x (height + 2) x (width + 2) x
  /// shape_.channels.
  dnnl::memory padded_;
};

}  // namespace evenstep::kernels::onednn
