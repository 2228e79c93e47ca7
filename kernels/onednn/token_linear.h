// A linear layer applied to every token: matrix products over the rows of a chunk. It may have the
// weights of an embedding instead of its own, and may add a residual to its output.
#pragma once

#include <optional>

#include "kernels/onednn/dense_product.h"
#include "kernels/onednn/embedding.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class TokenLinear : public Layer {
 public:
  struct Options {
    int outputs = 0;
    bool logits = false;  ///< values are fp32 whatever the compute type
    std::optional<Tensor> residual = {};
    const Embedding* tied = nullptr;  ///< whose weights these are; then there is no bias
  };
  TokenLinear(Context& context, const Tensor& input, Options options);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;

 private:
  using Desc = dnnl::memory::desc;
  /// The caller's weights, and a copy in the layout that one of the products wants.
  struct Weights {
    dnnl::memory plain, ready;
    Call load;
  };
  static Weights make_weights(Context& context, const Desc& from, const Desc& to,
                              const Desc& plain);
  void make_products(Context& context);
  void make_forward(Context& context);
  void make_backward_input(Context& context);
  void make_weight_gradients(Context& context);
  void multiply_weights(std::size_t size, bool add);
  void sum_bias(std::size_t size, bool first);

  Tensor input_;
  Options options_;
  bool f32_;
  std::int64_t inputs_, outputs_;
  dnnl::stream stream_;
  // Where they suit, instead of oneDNN's.
  std::optional<DenseProduct> forward_product_, backward_product_, weight_product_;
  Weights forward_weights_, backward_weights_;
  dnnl::memory bias_;
  std::vector<Call> forward_, backward_input_;
  dnnl::memory weight_target_, weight_sums_;
  std::vector<Call> write_weights_, add_weights_;  // to the target
  std::vector<float> bias_part_, bias_sums_;
};

}  // namespace evenstep::kernels::onednn
