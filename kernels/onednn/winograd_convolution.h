// Convolution without bias by Winograd's algorithm, forward and backward.
#pragma once

#include "kernels/onednn/layer.h"
#include "kernels/onednn/winograd.h"

namespace evenstep::kernels::onednn {

class WinogradConvolution : public Layer {
 public:
  WinogradConvolution(Context& context, const Tensor& input, const Winograd::Shape& shape);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;

 private:
  Tensor input_;
  std::vector<std::int64_t> samples_;  // of the menu's sizes
  Winograd winograd_;
};

}  // namespace evenstep::kernels::onednn
