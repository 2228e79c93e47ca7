// Loops over the values of neighbouring channels in a group of samples, for batch norm: what
// oneDNN's primitive does for one whole chunk, here for any group, joined with the residual sum and
// the ReLU behind it. Statistics and sums are fp32 whatever the values are.
#pragma once

#include <cstdint>

#include "kernels/onednn/context.h"
#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn::channel_loops {

/// An activation tensor as these loops see it: samples x blocks x pixels x inner, row major, where
/// `inner` neighbours are channels of one pixel. Covers nchw, nhwc and the channel-blocked layouts.
struct View {
  std::int64_t blocks;
  std::int64_t pixels;
  std::int64_t inner;

  std::int64_t channels() const { return blocks * inner; }  ///< with what the layout pads
};
View view_of(const dnnl::memory::desc& desc);

/// `lanes` neighbouring channels over the samples of a group; pointers into tensors point at the
/// first value of the first sample.
struct Column {
  std::int64_t samples;
  std::int64_t sample_stride;
  std::int64_t pixels;
  std::int64_t pixel_stride;
  int lanes;  ///< 16, 8 or 1

  float count() const { return static_cast<float>(samples * pixels); }
};

/// As many channels as one vector takes.
int lanes_of(const View& view);

/// Mean and (biased) variance of each lane.
void statistics(const Column& column, const float* x, float* mean, float* variance);
void statistics(const Column& column, const loops::Bf16* x, float* mean, float* variance);

/// y = scale x + shift (+ residual, unless null), then max(y, 0) if `relu`.
struct Affine {
  const float* scale;
  const float* shift;
  bool relu;
};
void normalise(const Column& column, const Affine& affine, const float* x, const float* residual,
               float* y);
void normalise(const Column& column, const Affine& affine, const loops::Bf16* x,
               const loops::Bf16* residual, loops::Bf16* y);

/// Clears the gradients of outputs y that are not above zero (y null: of none), in place; then
/// sums[l] = the sum of gradients, products[l] = the sum of gradient (x - mean).
void gradient_sums(const Column& column, const float* x, const float* y, float* gradients,
                   const float* mean, float* sums, float* products);
void gradient_sums(const Column& column, const loops::Bf16* x, const loops::Bf16* y,
                   loops::Bf16* gradients, const float* mean, float* sums, float* products);

/// input_gradients = of_gradient gradients + of_x x + constant, by lane.
struct Combination {
  const float* of_gradient;
  const float* of_x;
  const float* constant;
};
void combine(const Column& column, const Combination& factors, const float* x,
             const float* gradients, float* input_gradients);
void combine(const Column& column, const Combination& factors, const loops::Bf16* x,
             const loops::Bf16* gradients, loops::Bf16* input_gradients);

}  // namespace evenstep::kernels::onednn::channel_loops
