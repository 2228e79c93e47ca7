// Layer normalisation (Ba, Kiros, Hinton 2016) of each token's features.
#pragma once

#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class LayerNorm : public Layer {
 public:
  /// `adds`: the input's gradients already hold what its other readers gave, and ours are added.
  LayerNorm(Context& context, const Tensor& input, double epsilon, bool adds);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;

 private:
  template <typename T>
  void forward_as(std::size_t size);
  template <typename T>
  void backward_parameters_as(std::size_t size);
  template <typename T>
  void backward_input_as(std::size_t size);

  Tensor input_;
  float epsilon_;
  bool adds_;
  bool f32_;
  std::int64_t features_;
  std::vector<float> weight_, bias_;
  Kept mean_, scale_;  // by row: 1 / deviation is the scale
  std::vector<float> weight_sums_, bias_sums_;
};

}  // namespace evenstep::kernels::onednn
