#include "kernels/onednn/pooled_convolution.h"

#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

}  // namespace

bool PooledConvolution::suits(const Context& context, const Tensor& input, const Node& convolution,
                              const Node& pooling) {
  return has_avx512() && context.dtype == Dtype::f32 &&
         convolution.spec.window == square(3, 1, 1) && convolution.spec.bias &&
         pooling.spec.window == square(2, 2) &&
         input.shape.channels % PooledGradients::window_channels == 0 &&
         convolution.output_shape.channels % 16 == 0 && !input.gradients.empty() &&
         layout_of(input.values[0].get_desc()) == Tag::nChw16c;
}

PooledConvolution::PooledConvolution(Context& context, const Tensor& input, const Node& convolution)
    : input_(input),
      stream_(context.stream),
      pooled_gradients_(context, input.shape, convolution.output_shape.channels) {
  convolved_.values_region = context.plan.new_region();
  convolution_.emplace(context, input, convolution, convolved_);
  pooling_.emplace(context, convolved_, true);
  output_ = pooling_->output();

  const Desc plain = convolution_->plain_weights().get_desc();
  const Desc grouped(plain.get_dims(), f32, Tag::aBcd32b);
  const Desc bias = convolution_->desc(0).bias_desc();
  weights_ = context.plan.view(context.plan.new_region(), grouped);
  load_weights_ = context.reorder(convolution_->plain_weights(), weights_);
  weight_sum_ = GradientSum(context, context.weight_part, grouped, plain, grouped);
  bias_sum_ = GradientSum(context, context.bias_part, bias, bias, bias);
}

void PooledConvolution::load(std::span<const float> parameters) {
  convolution_->load(parameters);
  load_weights_.run(stream_);
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
