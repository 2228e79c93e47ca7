// Dropout (Srivastava et al. 2014), scaled while training. What is dropped is a hash of the run's
// seed, the sample's position in the whole run, the layer and the element: the same whatever rank
// and chunk the sample is in, and backward needs no mask.
#pragma once

#include "kernels/onednn/channel_loops.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Dropout : public Layer {
 public:
  /// `layer` sets the layers of a network apart; `in_place`: the output takes the input's place.
  Dropout(Context& context, const Tensor& input, double rate, std::uint32_t layer, bool in_place);
  void forward(std::size_t size) override;
  void evaluate(std::size_t size) override;
  void backward_input(std::size_t size) override;
  bool needs_input() const override { return false; }
  bool alters_gradients() const override { return true; }

 private:
  void drop(std::size_t size, const std::vector<dnnl::memory>& from,
            const std::vector<dnnl::memory>& to);

  Tensor input_;
  bool f32_;
  const Context& context_;
  std::vector<std::int64_t> samples_;  // by menu size
  channel_loops::View view_;
  std::uint32_t layer_;
  std::uint32_t threshold_;  // hashes below it are dropped
  float scale_;
};

}  // namespace evenstep::kernels::onednn
