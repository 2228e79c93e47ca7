#include "kernels/onednn/convolution_forward.h"

#include <algorithm>
#include <utility>

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using ForwardDesc = dnnl::convolution_forward::primitive_desc;
using dnnl::algorithm;
constexpr auto f32 = dnnl::memory::data_type::f32;

/// What the primitives of all sizes have in common.
struct Shape {
  Dims weights;
  SampleShape output;
  Dims strides;
  Dims padding;
  bool bias;
};

Shape shape_of(const Node& node) {
  const Window& w = node.spec.window;
  return {{node.output_shape.channels, node.input_shapes[0].channels, w.height, w.width},
          node.output_shape,
          {w.stride, w.stride},
          {w.pad_height, w.pad_width},
          node.spec.bias};
}

ForwardDesc forward_desc(Context& context, const Shape& shape, const Desc& in, const Desc& weights,
                         Tag out_layout) {
  const SampleShape& o = shape.output;
  const Desc out({in.get_dims()[0], o.channels, o.height, o.width}, context.type, out_layout);
  const Desc bias = shape.bias ? Desc({o.channels}, f32, Tag::a) : Desc();
  return ForwardDesc(context.engine, dnnl::prop_kind::forward_training,
                     algorithm::convolution_direct, in, weights, bias, out, shape.strides,
                     shape.padding, shape.padding, context.attributes);
}

/// oneDNN's choice; where that is its slow reference code (seen with one input channel and
/// channels-last output), a blocked output if there is fast code for that.
ForwardDesc choose(Context& context, const Shape& shape, const Desc& in) {
  const Desc weights(shape.weights, context.type, Tag::any);
  ForwardDesc chosen = forward_desc(context, shape, in, weights, Tag::any);
  if (!is_reference(chosen)) return chosen;
  for (Tag layout : {Tag::nChw16c, Tag::nChw8c}) {
    try {
      ForwardDesc blocked = forward_desc(context, shape, in, weights, layout);
      if (!is_reference(blocked)) return blocked;
    } catch (const dnnl::error&) {
      // This processor has no code for this layout.
    }
  }
  return chosen;
}

/// The forward primitive of every size; the largest chooses layouts for all, since the gradients
/// of all sizes are added up.
std::vector<ForwardDesc> choose_all(Context& context, const Shape& shape, const Tensor& input) {
  const ForwardDesc largest = choose(context, shape, input.values.back().get_desc());
  std::vector<ForwardDesc> all;
  for (const dnnl::memory& in : input.values) {
    all.push_back(forward_desc(context, shape, in.get_desc(), largest.weights_desc(),
                               layout_of(largest.dst_desc())));
  }
  return all;
}

}  // namespace

Tag ConvolutionForward::output_layout(Context& context, const Tensor& input, const Node& node) {
  return layout_of(choose(context, shape_of(node), input.values.back().get_desc()).dst_desc());
}

ConvolutionForward::ConvolutionForward(Context& context, const Tensor& input, const Node& node,
                                       Tensor& output)
    : stream_(context.stream) {
  const Shape shape = shape_of(node);
  strides_ = shape.strides;
  padding_ = shape.padding;
  descs_ = choose_all(context, shape, input);
  const dnnl::memory::desc plain(shape.weights, f32, Tag::oihw);
  weight_count_ = element_count(plain);
  plain_weights_ = dnnl::memory(plain, context.engine, DNNL_MEMORY_NONE);
  if (shape.bias) bias_ = context.plan.view(context.plan.new_region(), descs_.back().bias_desc());
  output.shape = shape.output;
  for (const ForwardDesc& desc : descs_) output.add_values(context.plan, desc.dst_desc());
  const auto winograd = Winograd::shape_for(context, input, node);
  if (winograd && layout_of(descs_.back().dst_desc()) == Winograd::layout(*winograd)) {
    winograd_.emplace(context, *winograd, Winograd::Passes::forward);
    samples_.assign(context.menu.sizes().begin(), context.menu.sizes().end());
    inputs_ = input.values;
    outputs_ = output.values;
    return;
  }
  weights_ = context.plan.view(context.plan.new_region(), descs_.back().weights_desc());
  load_weights_ = context.reorder(plain_weights_, weights_);
  for (std::size_t size = 0; size < descs_.size(); ++size) {
    std::vector<Call::Argument> arguments = {{DNNL_ARG_SRC, input.values[size]},
                                             {DNNL_ARG_WEIGHTS, weights_},
                                             {DNNL_ARG_DST, output.values[size]}};
    if (shape.bias) arguments.push_back({DNNL_ARG_BIAS, bias_});
    calls_.push_back(context.bind(descs_[size], std::move(arguments)));
  }
}

void ConvolutionForward::load(std::span<const float> parameters) {
  // oneDNN only reads through this handle, though its type does not say so.
  plain_weights_.set_data_handle(const_cast<float*>(parameters.data()));
  if (winograd_)
    winograd_->load(parameters.data());
  else
    load_weights_.run(stream_);
  const auto biases = static_cast<std::int64_t>(parameters.size()) - weight_count_;
  if (biases == 0) return;
  std::copy_n(parameters.data() + weight_count_, biases, data<float>(bias_));
}

void ConvolutionForward::run(std::size_t size) {
  if (!winograd_) {
    calls_[size].run(stream_);
    return;
  }
  const float* biases = bias_ ? data<float>(bias_) : nullptr;
  winograd_->forward(data<float>(inputs_[size]), biases, samples_[size],
                     data<float>(outputs_[size]));
}

}  // namespace evenstep::kernels::onednn
