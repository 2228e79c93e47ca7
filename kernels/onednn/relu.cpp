#include "kernels/onednn/relu.h"

#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {

Relu::Relu(const Tensor& input)
    : f32_(input.values[0].get_desc().get_data_type() == dnnl::memory::data_type::f32) {
  output_ = input;
}

void Relu::forward(std::size_t size) {
  const dnnl::memory& values = output_.values[size];
  if (f32_) {
    loops::relu(data<float>(values), output_.counts[size]);
  } else {
    loops::relu(data<loops::Bf16>(values), output_.counts[size]);
  }
}

void Relu::backward_input(std::size_t size) {
  const dnnl::memory& values = output_.values[size];
  const dnnl::memory& gradients = output_.gradients[size];
  if (f32_) {
    loops::relu_backward(data<float>(values), data<float>(gradients), output_.counts[size]);
  } else {
    loops::relu_backward(data<loops::Bf16>(values), data<loops::Bf16>(gradients),
                         output_.counts[size]);
  }
}

}  // namespace evenstep::kernels::onednn
