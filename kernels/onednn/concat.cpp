#include "kernels/onednn/concat.h"

#include <algorithm>
#include <utility>

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

/// That of the first input, where blocks of channels stay whole.
Tag layout_for(const std::vector<Tensor>& inputs) {
  const Tag layout = layout_of(inputs[0].values[0].get_desc());
  const int block = layout == Tag::nChw16c ? 16 : layout == Tag::nChw8c ? 8 : 1;
  const auto whole = [&](const Tensor& input) { return input.shape.channels % block == 0; };
  return std::ranges::all_of(inputs, whole) ? layout : Tag::nchw;
}

}  // namespace

Concat::Concat(Context& context, std::vector<Tensor> inputs)
    : inputs_(std::move(inputs)), stream_(context.stream) {
  const Tag layout = layout_for(inputs_);
  output_.shape = inputs_[0].shape;
  output_.shape.channels = 0;
  for (const Tensor& input : inputs_) output_.shape.channels += input.shape.channels;
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  const bool gradients = std::ranges::any_of(inputs_, &Tensor::has_gradients);
  for (std::size_t size = 0; size < inputs_[0].values.size(); ++size) {
    auto dims = inputs_[0].values[size].get_desc().get_dims();
    dims[1] = output_.shape.channels;
    output_.add_values(context.plan, Desc(dims, context.type, layout));
    if (gradients) output_.add_gradients(context.plan, Desc(dims, context.type, layout));
    make_forward(context, size);
    if (gradients) make_backward(context, size);
  }
}

void Concat::make_forward(Context& context, std::size_t size) {
  std::vector<Desc> descs;
  std::vector<Call::Argument> arguments = {{DNNL_ARG_DST, output_.values[size]}};
  for (const Tensor& input : inputs_) {
    arguments.push_back(
        {DNNL_ARG_MULTIPLE_SRC + static_cast<int>(descs.size()), input.values[size]});
    descs.push_back(input.values[size].get_desc());
  }
  const dnnl::concat::primitive_desc desc(context.engine, output_.values[size].get_desc(), 1, descs,
                                          context.attributes);
  forward_.push_back(context.bind(desc, std::move(arguments)));
}

void Concat::make_backward(Context& context, std::size_t size) {
  const Desc whole = output_.gradients[size].get_desc();
  std::vector<Call> calls;
  dnnl::memory::dim channel = 0;
  for (const Tensor& input : inputs_) {
    auto dims = whole.get_dims();
    dims[1] = input.shape.channels;
    const Desc part =
        whole.submemory_desc(dims, {0, std::exchange(channel, channel + dims[1]), 0, 0});
    if (!input.has_gradients()) continue;
    const dnnl::memory from = context.plan.view(output_.gradients_region, part);
    calls.push_back(context.reorder(from, input.gradients[size]));
  }
  backward_.push_back(std::move(calls));
}

void Concat::forward(std::size_t size) { forward_[size].run(stream_); }

void Concat::backward_input(std::size_t size) {
  for (const Call& call : backward_[size]) call.run(stream_);
}

}  // namespace evenstep::kernels::onednn
