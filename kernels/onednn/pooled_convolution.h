// A 3x3 convolution and the 2x2 max pooling behind it as one layer, whose backward skips what the
// pool (and a ReLU after it) cleared: see pooled_gradients.h. fp32, AVX-512 or AVX2.
#pragma once

#include <optional>

#include "kernels/onednn/convolution_forward.h"
#include "kernels/onednn/gradient_sum.h"
#include "kernels/onednn/layer.h"
#include "kernels/onednn/max_pooling.h"
#include "kernels/onednn/pooled_gradients.h"

namespace evenstep::kernels::onednn {

class PooledConvolution : public Layer {
 public:
  /// Whether this layer can stand for a convolution and a pool, and is faster here, and in what
  /// shape.
  static std::optional<PooledGradients::Shape> suitable(Context& context, const Tensor& input,
                                                        const Node& convolution,
                                                        const Node& pooling);

  PooledConvolution(Context& context, const Tensor& input, const Node& convolution,
                    const PooledGradients::Shape& shape);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;

 private:
  Tensor input_;
  Tensor convolved_;  // between convolution and pool: values only
  dnnl::stream stream_;
  std::optional<ConvolutionForward> convolution_;
  std::optional<MaxPooling> pooling_;
  PooledGradients pooled_gradients_;
  dnnl::memory weights_;  // in the layout of pooled_gradients_
  Call load_weights_;
  GradientSum weight_sum_, bias_sum_;
};

}  // namespace evenstep::kernels::onednn
