// Backward of a 3x3 convolution under 2x2 max pooling, from the pooled gradients alone.
//
// At most one of each four convolution outputs has a gradient, the one that won its pool, and a
// ReLU behind the pool clears about half of these. A dense backward multiplies all the zeros. Here
// the gradients that are not zero are listed, one list an output channel of a sample, and each of
// them meets a window of 3x3 taps of 32 input channels: a quarter of the dense work at most.
//
// A window is three runs of 96 floats; the 18 vectors of 16 that it is made of, or is multiplied
// with, stay in registers over a list. That takes AVX-512; elsewhere this is correct and slow.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/onednn/context.h"

namespace evenstep::kernels::onednn {

class PooledGradients {
 public:
  /// Channels of a window; input channels must be a multiple of it.
  static constexpr std::int64_t window_channels = 32;

  /// For convolutions from `input` (nChw16c, fp32) to `out_channels`, a multiple of 16. Weights
  /// are in the layout aBcd32b: out channel, in channel / 32, 3, 3, 32.
  PooledGradients(Context& context, const SampleShape& input, std::int64_t out_channels);

  /// Lists what is not zero in `gradients`, of the pool's output, nChw16c; `winners` holds which
  /// of the four won each pool.
  void collect(const float* gradients, const std::uint32_t* winners, std::int64_t samples);

  /// Overwrites weight and bias gradients with those of the samples collected last.
  void weights(const float* input, float* weight_gradients, float* bias_gradients);
  /// Overwrites the input's gradients with those of the samples collected last.
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
  void weights_of_block(float* weight_gradients, float* bias_gradients, std::int64_t block);

  const Context& context_;
  std::int64_t height_, width_, out_channels_;
  std::int64_t groups_;  // of 32 input channels
  std::int64_t samples_ = 0;
  std::int64_t row_;          // floats of a padded row: (width + 2) x 32
  std::int64_t list_length_;  // with room for one more than can be
  std::vector<Entry> entries_;
  std::vector<std::int32_t> lengths_;
  /// Inputs, later their gradients: samples x groups x (height + 2) x (width + 2) x 32.
  dnnl::memory padded_;
};

}  // namespace evenstep::kernels::onednn
