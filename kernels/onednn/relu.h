// max(x, 0), in place: its output is its input's memory, and so are the gradients.
#pragma once

#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Relu : public Layer {
 public:
  explicit Relu(const Tensor& input);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;
  bool needs_input() const override { return false; }
  bool needs_output() const override { return true; }
  bool alters_gradients() const override { return true; }

 private:
  bool f32_;
};

}  // namespace evenstep::kernels::onednn
