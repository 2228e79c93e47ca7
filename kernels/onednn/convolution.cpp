#include "kernels/onednn/convolution.h"

#include <utility>

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using dnnl::algorithm;
constexpr auto f32 = dnnl::memory::data_type::f32;

}  // namespace

Convolution::Convolution(Context& context, const Tensor& input, const Node& node)
    : input_(input), bias_(node.spec.bias), stream_(context.stream) {
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  forward_.emplace(context, input, node, output_);
  for (const dnnl::memory& values : output_.values) {
    output_.add_gradients(context.plan, values.get_desc());
  }
  make_backward_parameters(context);
  if (!input.gradients.empty()) make_backward_input(context);
}

void Convolution::make_backward_parameters(Context& context) {
  const auto make_desc = [&](std::size_t size, const Desc& in, const Dims& padding,
                             const Desc& weights) {
    const ConvolutionForward::Desc& forward = forward_->desc(size);
    return dnnl::convolution_backward_weights::primitive_desc(
        context.engine, algorithm::convolution_direct, in, weights, forward.bias_desc(),
        forward.dst_desc(), forward_->strides(), padding, padding, forward, context.attributes);
  };
  const Desc plain = forward_->plain_weights().get_desc();
  const Desc any(plain.get_dims(), f32, Tag::any);
  const std::size_t sizes = input_.values.size();
  std::vector<dnnl::memory> inputs = input_.values;
  Dims padding = forward_->padding();
  if (is_reference(make_desc(sizes - 1, inputs.back().get_desc(), padding, any))) {
    inputs = padded_inputs(context);
    padding = {0, 0};
  }
  const Desc written =
      make_desc(sizes - 1, inputs.back().get_desc(), padding, any).diff_weights_desc();
  weight_sum_ = GradientSum(context, context.weight_part, written, plain, written);
  if (bias_) {
    const Desc bias = forward_->desc(0).bias_desc();
    bias_sum_ = GradientSum(context, context.bias_part, bias, bias, bias);
  }
  for (std::size_t size = 0; size < sizes; ++size) {
    std::vector<Call::Argument> arguments = {{DNNL_ARG_SRC, inputs[size]},
                                             {DNNL_ARG_DIFF_DST, output_.gradients[size]},
                                             {DNNL_ARG_DIFF_WEIGHTS, weight_sum_.target()}};
    if (bias_) arguments.push_back({DNNL_ARG_DIFF_BIAS, bias_sum_.target()});
    backward_parameters_.push_back(context.bind(
        make_desc(size, inputs[size].get_desc(), padding, written), std::move(arguments)));
  }
}

std::vector<dnnl::memory> Convolution::padded_inputs(Context& context) {
  std::vector<dnnl::memory> padded;
  const MemoryPlan::Region region = context.plan.new_region();
  const Dims& border = forward_->padding();
  for (std::size_t size = 0; size < input_.values.size(); ++size) {
    const Dims dims = input_.values[size].get_desc().get_dims();
    const Desc desc({dims[0], dims[1], dims[2] + 2 * border[0], dims[3] + 2 * border[1]},
                    context.type, layout_of(forward_->desc(size).dst_desc()));
    const Desc inside = desc.submemory_desc(dims, {0, 0, border[0], border[1]});
    padded.push_back(context.plan.view(region, desc));
    pad_input_.push_back(context.reorder(input_.values[size], context.plan.view(region, inside)));
  }
  return padded;
}

void Convolution::make_backward_input(Context& context) {
  const auto make_desc = [&](std::size_t size, const Desc& weights) {
    const ConvolutionForward::Desc& forward = forward_->desc(size);
    return dnnl::convolution_backward_data::primitive_desc(
        context.engine, algorithm::convolution_direct, input_.gradients[size].get_desc(), weights,
        forward.dst_desc(), forward_->strides(), forward_->padding(), forward_->padding(), forward,
        context.attributes);
  };
  const Desc any(forward_->plain_weights().get_desc().get_dims(), context.type, Tag::any);
  const std::size_t sizes = input_.values.size();
  const Desc read = make_desc(sizes - 1, any).weights_desc();
  weights_ = context.plan.view(context.plan.new_region(), read);
  load_weights_ = context.reorder(forward_->plain_weights(), weights_);
  for (std::size_t size = 0; size < sizes; ++size) {
    backward_input_.push_back(
        context.bind(make_desc(size, read), {{DNNL_ARG_DIFF_DST, output_.gradients[size]},
                                             {DNNL_ARG_WEIGHTS, weights_},
                                             {DNNL_ARG_DIFF_SRC, input_.gradients[size]}}));
  }
}

void Convolution::load(std::span<const float> parameters) {
  forward_->load(parameters);
  if (!backward_input_.empty()) load_weights_.run(stream_);
}

void Convolution::forward(std::size_t size) { forward_->run(size); }

void Convolution::backward_parameters(std::size_t size, Network::Pass pass,
                                      std::span<float> gradients) {
  float* bias_gradients = pass.last ? gradients.data() + forward_->weight_count() : nullptr;
  weight_sum_.begin(pass, gradients.data());
  if (bias_) bias_sum_.begin(pass, bias_gradients);
  if (!pad_input_.empty()) pad_input_[size].run(stream_);
  backward_parameters_[size].run(stream_);
  weight_sum_.end(stream_, pass, gradients.data());
  if (bias_) bias_sum_.end(stream_, pass, bias_gradients);
}

void Convolution::backward_input(std::size_t size) { backward_input_[size].run(stream_); }

}  // namespace evenstep::kernels::onednn
