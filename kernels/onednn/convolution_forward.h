// Forward of a convolution: shared by the layers that differ
// in how they go backward. Weights are kept in the layout that oneDNN chooses for the largest
// chunk, or, where that is faster, in Winograd's.
#pragma once

#include <optional>

#include "kernels/onednn/winograd.h"

namespace evenstep::kernels::onednn {

class ConvolutionForward {
 public:
  using Desc = dnnl::convolution_forward::primitive_desc;

  /// The layout that the output would have.
  static dnnl::memory::format_tag output_layout(Context& context, const Tensor& input,
                                                const Node& node);

  /// Fills `output`'s shape and values; its values_region must be set.
  ConvolutionForward(Context& context, const Tensor& input, const Node& node, Tensor& output);

  /// Plain weight, then bias.
  void load(std::span<const float> parameters);
  void run(std::size_t size);

  const dnnl::memory::dims& strides() const { return strides_; }
  /// Above and to the left; below and to the right there may be less to read.
  const dnnl::memory::dims& padding() const { return padding_; }
  const Desc& desc(std::size_t size) const { return descs_[size]; }
  /// The caller's weights, set by load(): oihw, fp32.
  const dnnl::memory& plain_weights() const { return plain_weights_; }
  std::int64_t weight_count() const { return weight_count_; }

 private:
  dnnl::memory::dims strides_, padding_;
  std::vector<Desc> descs_;  // by menu size
  std::int64_t weight_count_;
  dnnl::stream stream_;
  dnnl::memory plain_weights_, weights_, bias_;
  Call load_weights_;
  std::vector<Call> calls_;
  std::optional<Winograd> winograd_;   // instead of those
  std::vector<std::int64_t> samples_;  // by menu size
  std::vector<dnnl::memory> inputs_, outputs_;
};

}  // namespace evenstep::kernels::onednn
