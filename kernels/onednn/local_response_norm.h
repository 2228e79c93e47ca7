// Local response normalisation: y = x / (1 + alpha * mean of x^2 over the window)^beta, the window
// being neighbouring channels (Krizhevsky et al. 2012) or neighbouring pixels of the same channel
// (cuda-convnet's "map" norm, Caffe's WITHIN_CHANNEL). Backward of the latter is our own where
// oneDNN has only reference code for it (AVX2).
#pragma once

#include "kernels/layers.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class LocalResponseNorm : public Layer {
 public:
  /// The channels of a sample, `inner` side by side, and what is done to them.
  struct Maps {
    std::int64_t height;
    std::int64_t width;
    std::int64_t inner;
    std::int64_t window;
    float alpha;
    float beta;
  };

  LocalResponseNorm(Context& context, const Tensor& input, const LayerSpec& spec);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;

 private:
  Tensor input_;
  dnnl::stream stream_;
  std::vector<Call> forward_, backward_;
  Maps maps_{};
  std::vector<std::int64_t> map_counts_;  // by size; 0: backward_ is used
  dnnl::memory terms_;                    // see backward_lanes()
};

}  // namespace evenstep::kernels::onednn
