// Max and average pooling with any window, own loops: oneDNN's max pooling drops NaN. The usual 2x2
// max pooling has a faster one, max_pooling.h.
#pragma once

#include "kernels/layers.h"
#include "kernels/onednn/channel_loops.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Pooling : public Layer {
 public:
  Pooling(Context& context, const Tensor& input, const Node& node);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;
  bool needs_input() const override { return false; }

  struct Geometry {
    Window window;
    std::int64_t height, width;          // of the input
    std::int64_t out_height, out_width;  // of the output
    std::int64_t inner;
  };

 private:
  template <typename T>
  void pool(std::size_t size);
  template <typename T>
  void spread(std::size_t size);

  Tensor input_;
  bool f32_;
  bool max_;
  Geometry geometry_;
  std::vector<std::int64_t> planes_;  // by menu size
  dnnl::memory winners_;  // max: which tap, in whole numbers as wide as the values, as the output
};

}  // namespace evenstep::kernels::onednn
