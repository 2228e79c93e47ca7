// Convolution of any kernel, stride and padding. Weights for backward are kept in a layout of
// their own that oneDNN chooses for the largest chunk.
#pragma once

#include <optional>

#include "kernels/onednn/convolution_forward.h"
#include "kernels/onednn/gradient_sum.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Convolution : public Layer {
 public:
  Convolution(Context& context, const Tensor& input, const Node& node);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;

 private:
  void make_backward_parameters(Context& context);
  /// Copies of the input in the output's layout and with its padding in memory; pad_input_ makes
  /// them.
  std::vector<dnnl::memory> padded_inputs(Context& context);
  void make_backward_input(Context& context);

  Tensor input_;
  bool bias_;
  dnnl::stream stream_;
  std::optional<ConvolutionForward> forward_;
  dnnl::memory weights_;  // for backward_input
  Call load_weights_;
  GradientSum weight_sum_, bias_sum_;
  /// For backward_parameters, where oneDNN has only reference code for the input as it is (AVX2: a
  /// plain image of one channel; one smaller than the window).
  std::vector<Call> pad_input_;
  std::vector<Call> backward_parameters_, backward_input_;
};

}  // namespace evenstep::kernels::onednn
