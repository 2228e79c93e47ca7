#include "kernels/onednn/convolution.h"

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

Convolution::Convolution(Context& context, GradientRegions& regions, const Tensor& input,
                         int outputs)
    : input_(input), outputs_(outputs), stream_(context.stream) {
  output_.shape = {outputs, input.shape.height, input.shape.width};
  output_.values_region = context.plan.new_region();
  output_.gradients_region = regions.next();
  const Desc plain(weight_dims(input, outputs), f32, Tag::oihw);
  weight_count_ = element_count(plain);
  plain_weights_ = dnnl::memory(plain, context.engine, DNNL_MEMORY_NONE);

  const std::vector<ForwardDesc> forward = choose_all(context, input, outputs);
  make_output(context, forward);
  make_forward(context, forward);
  make_backward_parameters(context, forward);
  if (!input.gradients.empty()) make_backward_input(context, forward);
}

void Convolution::make_output(Context& context, const std::vector<ForwardDesc>& forward) {
  for (const ForwardDesc& desc : forward) {
    output_.add_values(context.plan, desc.dst_desc());
    output_.add_gradients(context.plan, desc.dst_desc());
  }
}

void Convolution::make_forward(Context& context, const std::vector<ForwardDesc>& forward) {
  weights_ = context.plan.view(context.plan.new_region(), forward.back().weights_desc());
  bias_ = context.plan.view(context.plan.new_region(), forward.back().bias_desc());
  load_weights_ = context.reorder(plain_weights_, weights_);
  for (std::size_t size = 0; size < forward.size(); ++size) {
    forward_.push_back(context.bind(forward[size], {{DNNL_ARG_SRC, input_.values[size]},
                                                    {DNNL_ARG_WEIGHTS, weights_},
                                                    {DNNL_ARG_BIAS, bias_},
                                                    {DNNL_ARG_DST, output_.values[size]}}));
  }
}

void Convolution::make_backward_parameters(Context& context,
                                           const std::vector<ForwardDesc>& forward) {
  const auto make_desc = [&](std::size_t size, const Desc& weights) {
    return dnnl::convolution_backward_weights::primitive_desc(
        context.engine, algorithm::convolution_direct, input_.values[size].get_desc(), weights,
        forward[size].bias_desc(), forward[size].dst_desc(), ones, ones, ones, forward[size],
        context.attributes);
  };
  const Desc plain = plain_weights_.get_desc();
  const Desc any(plain.get_dims(), f32, Tag::any);
  const Desc written = make_desc(forward.size() - 1, any).diff_weights_desc();
  const Desc bias = forward.back().bias_desc();
  weight_sum_ = GradientSum(context, context.weight_part, written, plain, written);
  bias_sum_ = GradientSum(context, context.bias_part, bias, bias, bias);
  for (std::size_t size = 0; size < forward.size(); ++size) {
    backward_parameters_.push_back(
        context.bind(make_desc(size, written), {{DNNL_ARG_SRC, input_.values[size]},
                                                {DNNL_ARG_DIFF_DST, output_.gradients[size]},
                                                {DNNL_ARG_DIFF_WEIGHTS, weight_sum_.target()},
                                                {DNNL_ARG_DIFF_BIAS, bias_sum_.target()}}));
  }
}

void Convolution::make_backward_input(Context& context, const std::vector<ForwardDesc>& forward) {
  const auto make_desc = [&](std::size_t size, const Desc& weights) {
    return dnnl::convolution_backward_data::primitive_desc(
        context.engine, algorithm::convolution_direct, input_.gradients[size].get_desc(), weights,
        forward[size].dst_desc(), ones, ones, ones, forward[size], context.attributes);
  };
  const Desc any(plain_weights_.get_desc().get_dims(), context.type, Tag::any);
  const Desc read = make_desc(forward.size() - 1, any).weights_desc();
  backward_weights_ = context.plan.view(context.plan.new_region(), read);
  load_backward_weights_ = context.reorder(plain_weights_, backward_weights_);
  for (std::size_t size = 0; size < forward.size(); ++size) {
    backward_input_.push_back(
        context.bind(make_desc(size, read), {{DNNL_ARG_DIFF_DST, output_.gradients[size]},
                                             {DNNL_ARG_WEIGHTS, backward_weights_},
                                             {DNNL_ARG_DIFF_SRC, input_.gradients[size]}}));
  }
}

void Convolution::load(std::span<const float> parameters) {
  // oneDNN only reads through this handle, though its type does not say so.
  plain_weights_.set_data_handle(const_cast<float*>(parameters.data()));
  load_weights_.run(stream_);
  if (!backward_input_.empty()) load_backward_weights_.run(stream_);
  std::copy_n(parameters.data() + weight_count_, outputs_, data<float>(bias_));
}

void Convolution::forward(std::size_t size) { forward_[size].run(stream_); }

void Convolution::backward_parameters(std::size_t size, Network::Pass pass,
                                      std::span<float> gradients) {
  float* bias_gradients = pass.last ? gradients.data() + weight_count_ : nullptr;
  weight_sum_.begin(pass, gradients.data());
  bias_sum_.begin(pass, bias_gradients);
  backward_parameters_[size].run(stream_);
  weight_sum_.end(stream_, pass, gradients.data());
  bias_sum_.end(stream_, pass, bias_gradients);
}

void Convolution::backward_input(std::size_t size) { backward_input_[size].run(stream_); }

}  // namespace evenstep::kernels::onednn
