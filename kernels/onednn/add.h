// The sum of two tensors that lie alike, in place of the first where that may be overwritten.
#pragma once

#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Add : public Layer {
 public:
  /// `in_place`: the output takes the first input's place, values and gradients both. Throws
  /// std::logic_error where the inputs do not lie alike.
  Add(Context& context, const Tensor& first, const Tensor& second, bool in_place);
  void forward(std::size_t size) override;
  /// Copies the gradients to every input whose gradients are not the very same memory.
  void backward_input(std::size_t size) override;
  bool needs_input() const override { return false; }

 private:
  Tensor first_, second_;
  bool f32_;
};

}  // namespace evenstep::kernels::onednn
