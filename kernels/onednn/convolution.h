// 3x3 convolution, stride 1, padding 1, with bias. Weights are kept in the layouts that oneDNN
// chooses for the largest chunk: one for forward, one for backward.
#pragma once

#include "kernels/onednn/gradient_sum.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Convolution : public Layer {
 public:
  Convolution(Context& context, GradientRegions& regions, const Tensor& input, int outputs);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;

 private:
  using ForwardDesc = dnnl::convolution_forward::primitive_desc;
  void make_output(Context& context, const std::vector<ForwardDesc>& forward);
  void make_forward(Context& context, const std::vector<ForwardDesc>& forward);
  void make_backward_parameters(Context& context, const std::vector<ForwardDesc>& forward);
  void make_backward_input(Context& context, const std::vector<ForwardDesc>& forward);

  Tensor input_;
  int outputs_;
  std::int64_t weight_count_;  // in the caller's plain layout
  dnnl::stream stream_;
  dnnl::memory plain_weights_;  // the caller's
  dnnl::memory weights_, backward_weights_, bias_;
  Call load_weights_, load_backward_weights_;
  GradientSum weight_sum_, bias_sum_;
  std::vector<Call> forward_, backward_parameters_, backward_input_;
};

}  // namespace evenstep::kernels::onednn
