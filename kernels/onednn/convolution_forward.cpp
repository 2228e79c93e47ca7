#include "kernels/onednn/convolution_forward.h"

#include <algorithm>
#include <string_view>

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using ForwardDesc = dnnl::convolution_forward::primitive_desc;
using dnnl::algorithm;
constexpr auto f32 = dnnl::memory::data_type::f32;

const Dims ones{1, 1};  // stride and padding

Dims weight_dims(const Tensor& input, int outputs) { return {outputs, input.shape.channels, 3, 3}; }

ForwardDesc forward_desc(Context& context, const Desc& in, const Desc& weights, Tag out_layout) {
  Dims out = in.get_dims();
  out[1] = weights.get_dims()[0];
  return ForwardDesc(context.engine, dnnl::prop_kind::forward_training,
                     algorithm::convolution_direct, in, weights, Desc({out[1]}, f32, Tag::a),
                     Desc(out, context.type, out_layout), ones, ones, ones, context.attributes);
}

bool is_reference(const ForwardDesc& desc) {
  return std::string_view(desc.impl_info_str()).starts_with("ref");
}

/// oneDNN's choice; where that is its slow reference code (seen with one input channel and
/// channels-last output), a blocked output if there is fast code for that.
ForwardDesc choose(Context& context, const Desc& in, const Desc& weights) {
  ForwardDesc chosen = forward_desc(context, in, weights, Tag::any);
  if (!is_reference(chosen)) return chosen;
  for (Tag layout : {Tag::nChw16c, Tag::nChw8c}) {
    try {
      ForwardDesc blocked = forward_desc(context, in, weights, layout);
      if (!is_reference(blocked)) return blocked;
    } catch (const dnnl::error&) {
      // This processor has no code for this layout.
    }
  }
  return chosen;
}

/// The forward primitive of every size; the largest chooses layouts for all, since the gradients
/// of all sizes are added up.
std::vector<ForwardDesc> choose_all(Context& context, const Tensor& input, int outputs) {
  const Desc any(weight_dims(input, outputs), context.type, Tag::any);
  const ForwardDesc largest = choose(context, input.values.back().get_desc(), any);
  std::vector<ForwardDesc> all;
  for (const dnnl::memory& in : input.values) {
    all.push_back(forward_desc(context, in.get_desc(), largest.weights_desc(),
                               layout_of(largest.dst_desc())));
  }
  return all;
}

}  // namespace

ConvolutionForward::ConvolutionForward(Context& context, const Tensor& input, int outputs,
                                       Tensor& output)
    : descs_(choose_all(context, input, outputs)), stream_(context.stream) {
  const dnnl::memory::desc plain(weight_dims(input, outputs), f32, Tag::oihw);
  weight_count_ = element_count(plain);
  plain_weights_ = dnnl::memory(plain, context.engine, DNNL_MEMORY_NONE);
  weights_ = context.plan.view(context.plan.new_region(), descs_.back().weights_desc());
  bias_ = context.plan.view(context.plan.new_region(), descs_.back().bias_desc());
  load_weights_ = context.reorder(plain_weights_, weights_);
  output.shape = {outputs, input.shape.height, input.shape.width};
  for (std::size_t size = 0; size < descs_.size(); ++size) {
    output.add_values(context.plan, descs_[size].dst_desc());
    calls_.push_back(context.bind(descs_[size], {{DNNL_ARG_SRC, input.values[size]},
                                                 {DNNL_ARG_WEIGHTS, weights_},
                                                 {DNNL_ARG_BIAS, bias_},
                                                 {DNNL_ARG_DST, output.values[size]}}));
  }
}

void ConvolutionForward::load(std::span<const float> parameters) {
  // oneDNN only reads through this handle, though its type does not say so.
  plain_weights_.set_data_handle(const_cast<float*>(parameters.data()));
  load_weights_.run(stream_);
  const auto biases = static_cast<std::int64_t>(parameters.size()) - weight_count_;
  std::copy_n(parameters.data() + weight_count_, biases, data<float>(bias_));
}

}  // namespace evenstep::kernels::onednn
