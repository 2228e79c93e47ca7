// Local response normalisation: y = x / (1 + alpha * mean of x^2 over the window)^beta, the window
// being neighbouring channels (Krizhevsky et al. 2012) or neighbouring pixels of the same channel
// (cuda-convnet's "map" norm, Caffe's WITHIN_CHANNEL).
#pragma once

#include "kernels/layers.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class LocalResponseNorm : public Layer {
 public:
  LocalResponseNorm(Context& context, const Tensor& input, const LayerSpec& spec);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;

 private:
  Tensor input_;
  dnnl::stream stream_;
  std::vector<Call> forward_, backward_;
};

}  // namespace evenstep::kernels::onednn
