#include "kernels/onednn/winograd_convolution.h"

namespace evenstep::kernels::onednn {

WinogradConvolution::WinogradConvolution(Context& context, const Tensor& input,
                                         const Winograd::Shape& shape)
    : input_(input),
      samples_(context.menu.sizes().begin(), context.menu.sizes().end()),
      winograd_(context, shape, Winograd::Passes::both) {
  output_.shape = {static_cast<int>(shape.outputs), input.shape.height, input.shape.width};
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  for (std::int64_t samples : samples_) {
    const dnnl::memory::desc desc({samples, shape.outputs, shape.height, shape.width}, context.type,
                                  Winograd::layout(shape));
    output_.add_values(context.plan, desc);
    output_.add_gradients(context.plan, desc);
  }
}

void WinogradConvolution::load(std::span<const float> parameters) {
  winograd_.load(parameters.data());
}

void WinogradConvolution::forward(std::size_t size) {
  winograd_.forward(data<float>(input_.values[size]), nullptr, samples_[size],
                    data<float>(output_.values[size]));
}

void WinogradConvolution::backward_parameters(std::size_t size, Network::Pass pass,
                                              std::span<float> gradients) {
  winograd_.backward_weights(data<float>(input_.values[size]), data<float>(output_.gradients[size]),
                             samples_[size], pass, gradients.data());
}

void WinogradConvolution::backward_input(std::size_t size) {
  winograd_.backward_input(data<float>(output_.gradients[size]), samples_[size],
                           data<float>(input_.gradients[size]));
}

}  // namespace evenstep::kernels::onednn
