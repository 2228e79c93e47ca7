#include "kernels/onednn/pooled_convolution.h"

#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

bool is_divisible(const PooledGradients::Shape& shape, const Node& convolution) {
  return convolution.input_shapes[0].channels % shape.channels == 0 &&
         convolution.output_shape.channels % shape.lanes == 0;
}

Tag weight_layout(const PooledGradients::Shape& shape) {
  return shape.channels == 32 ? Tag::aBcd32b : shape.channels == 8 ? Tag::aBcd8b : Tag::abcd;
}

}  // namespace

std::optional<PooledGradients::Shape> PooledConvolution::suitable(Context& context,
                                                                  const Tensor& input,
                                                                  const Node& convolution,
                                                                  const Node& pooling) {
  if (context.dtype != Dtype::f32 || convolution.spec.window != square(3, 1, 1) ||
      !convolution.spec.bias || pooling.spec.window != square(2, 2))
    return std::nullopt;
  const Tag in = layout_of(input.values[0].get_desc());
  const Tag out = ConvolutionForward::output_layout(context, input, convolution);
  std::optional<PooledGradients::Shape> shape;
  if (in == Tag::nChw16c && out == in && has_avx512())
    shape = {.channels = 32, .lanes = 16};
  else if (in == Tag::nChw8c && out == in && has_avx2())
    shape = {.channels = 8, .lanes = 8};
  else if (in == Tag::nchw && out == Tag::nChw8c && has_avx2() && !input.has_gradients())
    shape = {.channels = 1, .lanes = 8};
  return shape && is_divisible(*shape, convolution) ? shape : std::nullopt;
}

PooledConvolution::PooledConvolution(Context& context, const Tensor& input, const Node& convolution,
                                     const PooledGradients::Shape& shape)
    : input_(input),
      stream_(context.stream),
      pooled_gradients_(context, input.shape, convolution.output_shape.channels, shape) {
  convolved_.values_region = context.plan.new_region();
  convolution_.emplace(context, input, convolution, convolved_);
  pooling_.emplace(context, convolved_, true);
  output_ = pooling_->output();

  const Desc plain = convolution_->plain_weights().get_desc();
  const Desc grouped(plain.get_dims(), f32, weight_layout(shape));
  const Desc bias = convolution_->desc(0).bias_desc();
  if (input.has_gradients()) {
    weights_ = context.plan.view(context.plan.new_region(), grouped);
    load_weights_ = context.reorder(convolution_->plain_weights(), weights_);
  }
  weight_sum_ = GradientSum(context, context.weight_part, grouped, plain, grouped);
  bias_sum_ = GradientSum(context, context.bias_part, bias, bias, bias);
}

void PooledConvolution::load(std::span<const float> parameters) {
  convolution_->load(parameters);
  if (input_.has_gradients()) load_weights_.run(stream_);
}

void PooledConvolution::forward(std::size_t size) {
  convolution_->run(size);
  pooling_->forward(size);
}

void PooledConvolution::backward_parameters(std::size_t size, Network::Pass pass,
                                            std::span<float> gradients) {
  const std::int64_t samples = input_.counts[size] / input_.shape.elements();
  pooled_gradients_.collect(data<float>(output_.gradients[size]),
                            data<std::uint32_t>(pooling_->winners()), samples);
  float* bias_gradients = pass.last ? gradients.data() + convolution_->weight_count() : nullptr;
  weight_sum_.begin(pass, gradients.data());
  bias_sum_.begin(pass, bias_gradients);
  pooled_gradients_.weights(data<float>(input_.values[size]), data<float>(weight_sum_.target()),
                            data<float>(bias_sum_.target()));
  weight_sum_.end(stream_, pass, gradients.data());
  bias_sum_.end(stream_, pass, bias_gradients);
}

void PooledConvolution::backward_input(std::size_t size) {
  pooled_gradients_.input(data<float>(weights_), data<float>(input_.gradients[size]));
}

}  // namespace evenstep::kernels::onednn
