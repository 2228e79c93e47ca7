#include "kernels/onednn/local_response_norm.h"

#include <utility>

namespace evenstep::kernels::onednn {

LocalResponseNorm::LocalResponseNorm(Context& context, const Tensor& input, const LayerSpec& spec)
    : input_(input), stream_(context.stream) {
  const auto algorithm = spec.across_channels ? dnnl::algorithm::lrn_across_channels
                                              : dnnl::algorithm::lrn_within_channel;
  const auto alpha = static_cast<float>(spec.alpha);
  const auto beta = static_cast<float>(spec.beta);
  output_.shape = input.shape;
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  const MemoryPlan::Region workspace_region = context.plan.new_region();
  context.plan.keep(workspace_region);
  for (std::size_t size = 0; size < input.values.size(); ++size) {
    const dnnl::memory::desc values = input.values[size].get_desc();
    const dnnl::lrn_forward::primitive_desc forward(
        context.engine, dnnl::prop_kind::forward_training, algorithm, values, values,
        spec.window.height, alpha, beta, 1.0F, context.attributes);
    const dnnl::memory workspace = context.plan.view(workspace_region, forward.workspace_desc());
    output_.add_values(context.plan, values);
    forward_.push_back(context.bind(forward, {{DNNL_ARG_SRC, input.values[size]},
                                              {DNNL_ARG_DST, output_.values[size]},
                                              {DNNL_ARG_WORKSPACE, workspace}}));
    if (!input.has_gradients()) continue;
    output_.add_gradients(context.plan, values);
    const dnnl::lrn_backward::primitive_desc backward(context.engine, algorithm, values, values,
                                                      values, spec.window.height, alpha, beta, 1.0F,
                                                      forward, context.attributes);
    backward_.push_back(context.bind(backward, {{DNNL_ARG_SRC, input.values[size]},
                                                {DNNL_ARG_DIFF_DST, output_.gradients[size]},
                                                {DNNL_ARG_WORKSPACE, workspace},
                                                {DNNL_ARG_DIFF_SRC, input.gradients[size]}}));
  }
}

void LocalResponseNorm::forward(std::size_t size) { forward_[size].run(stream_); }

void LocalResponseNorm::backward_input(std::size_t size) { backward_[size].run(stream_); }

}  // namespace evenstep::kernels::onednn
