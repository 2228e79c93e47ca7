// 2x2 max pooling with stride 2, own loops: oneDNN's drops NaN, and costs more at these sizes.
#pragma once

#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

/// An activation tensor as loops see it: `planes` x `height` x `width` x `inner`, row major, where
/// `inner` neighbours are channels of one pixel. Covers nchw, nhwc and the channel-blocked layouts.
struct Planes {
  std::int64_t planes;
  std::int64_t height;
  std::int64_t width;
  std::int64_t inner;
};

class MaxPooling : public Layer {
 public:
  /// `gradients`: whether the output gets any.
  MaxPooling(Context& context, const Tensor& input, bool gradients);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;
  bool needs_input() const override { return false; }

  /// Which of the four won, 0 to 3, in whole numbers as wide as the values; lies as the output
  /// does, for the chunk that forward ran last.
  const dnnl::memory& winners() const { return winners_; }

 private:
  Tensor input_;
  std::vector<Planes> planes_;  // of the input, by menu size
  dnnl::memory winners_;
  bool f32_;
};

}  // namespace evenstep::kernels::onednn
