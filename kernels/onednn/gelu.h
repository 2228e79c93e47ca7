// GELU in its tanh form (Hendrycks and Gimpel 2016), as GPT-2 has it: x / (1 + exp(-2u)) with
// u = sqrt(2/pi) (x + 0.044715 x^3). Forward leaves the slope in the input's place, so that
// backward is one product.
#pragma once

#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Gelu : public Layer {
 public:
  /// Overwrites `input`, values and gradients both.
  Gelu(Context& context, const Tensor& input);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;
  bool alters_gradients() const override { return true; }

 private:
  Tensor input_;
  bool f32_;
};

}  // namespace evenstep::kernels::onednn
