// The embedding of tokens plus that of their places in the sequence. A tied linear layer computes
// by the same weights of tokens and adds its gradients to the same sums.
#pragma once

#include "kernels/layers.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Embedding : public Layer {
 public:
  /// `tied`: a later layer has the tokens' weights too; it goes backward first, and begins the
  /// sums.
  Embedding(Context& context, const Node& node, bool tied);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t /*size*/) override {}
  bool needs_input() const override { return false; }

  /// Of the tokens, classes x features, plain fp32: the values that load() has taken, and the sums
  /// of the share's gradients.
  const dnnl::memory& tokens() const { return tokens_; }
  const dnnl::memory& token_sums() const { return token_sums_; }

 private:
  template <typename T>
  void forward_as(std::size_t size);
  template <typename T>
  void backward_as(std::size_t size);
  std::int64_t token(std::int64_t row) const;

  const Context& context_;
  bool tied_;
  std::int64_t classes_, features_, places_;
  dnnl::memory tokens_, token_sums_;
  std::vector<float> place_values_, place_sums_;
};

}  // namespace evenstep::kernels::onednn
