// Channels of several tensors one behind the other.
#pragma once

#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Concat : public Layer {
 public:
  Concat(Context& context, std::vector<Tensor> inputs);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;
  bool needs_input() const override { return false; }

 private:
  void make_forward(Context& context, std::size_t size);
  void make_backward(Context& context, std::size_t size);

  std::vector<Tensor> inputs_;
  dnnl::stream stream_;
  std::vector<Call> forward_;                // by menu size
  std::vector<std::vector<Call>> backward_;  // by menu size, then input
};

}  // namespace evenstep::kernels::onednn
