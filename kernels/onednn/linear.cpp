#include "kernels/onednn/linear.h"

#include <algorithm>

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

}  // namespace

Linear::Linear(Context& context, const Tensor& input, int outputs, bool logits)
    : input_(input),
      outputs_(outputs),
      inputs_(element_count(input.values[0].get_desc()) / context.menu.sizes()[0]),
      weight_count_(outputs * input.shape.elements()),
      stream_(context.stream) {
  output_.shape = {outputs, 1, 1};
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  make_output(context, logits);
  make_weights(context);
  for (std::size_t size = 0; size < input.values.size(); ++size) {
    const FewRows rows{context.menu.sizes()[size], inputs_, outputs_};
    if (context.dtype == Dtype::f32 && rows.suits()) {
      few_.push_back(rows);
    } else {
      make_forward(context, size);
    }
    if (!input.gradients.empty()) make_backward_input(context, size);
  }
}

void Linear::make_output(Context& context, bool logits) {
  for (int samples : context.menu.sizes()) {
    const dnnl::memory::dims dims{samples, outputs_, 1, 1};
    output_.add_values(context.plan, Desc(dims, logits ? f32 : context.type, Tag::nchw));
    output_.add_gradients(context.plan, Desc(dims, context.type, Tag::nchw));
  }
}

void Linear::make_weights(Context& context) {
  // An output's weights lie as a sample of the input does: then both are plain rows.
  const SampleShape& in = input_.shape;
  const dnnl::memory::dims dims{outputs_, in.channels, in.height, in.width};
  const Tag layout = layout_of(input_.values[0].get_desc());
  const Desc plain(dims, f32, Tag::nchw);
  const Desc ready(dims, context.type, layout);
  in_place_ = ready == plain;
  if (!in_place_) weights_region_ = context.plan.new_region();
  weights_ = weights_as(context, ready);
  forward_weights_ = weights_as(context, Desc({inputs_, outputs_}, context.type, Tag::ba));
  backward_weights_ = weights_as(context, Desc({outputs_, inputs_}, context.type, Tag::ab));
  bias_ = dnnl::memory(Desc({1, outputs_}, f32, Tag::ab), context.engine, DNNL_MEMORY_NONE);
  plain_weights_ = dnnl::memory(plain, context.engine, DNNL_MEMORY_NONE);
  if (!in_place_) load_weights_ = context.reorder(plain_weights_, weights_);
  weight_products_.emplace(context, input_, output_, Desc(dims, f32, layout), plain);
}

dnnl::memory Linear::weights_as(Context& context, const Desc& desc) const {
  if (in_place_) return {desc, context.engine, DNNL_MEMORY_NONE};
  return context.plan.view(weights_region_, desc);
}

void Linear::make_forward(Context& context, std::size_t size) {
  const int samples = context.menu.sizes()[size];
  const Desc in({samples, inputs_}, context.type, Tag::ab);
  const Desc out({samples, outputs_}, output_.values[size].get_desc().get_data_type(), Tag::ab);
  const dnnl::matmul::primitive_desc desc(context.engine, in, forward_weights_.get_desc(),
                                          bias_.get_desc(), out, context.attributes);
  forward_.push_back(
      context.bind(desc, {{DNNL_ARG_SRC, context.plan.view(input_.values_region, in)},
                          {DNNL_ARG_WEIGHTS, forward_weights_},
                          {DNNL_ARG_BIAS, bias_},
                          {DNNL_ARG_DST, context.plan.view(output_.values_region, out)}}));
}

void Linear::make_backward_input(Context& context, std::size_t size) {
  const int samples = context.menu.sizes()[size];
  const Desc out({samples, outputs_}, context.type, Tag::ab);
  const Desc in({samples, inputs_}, context.type, Tag::ab);
  const dnnl::matmul::primitive_desc desc(context.engine, out, backward_weights_.get_desc(), in,
                                          context.attributes);
  backward_input_.push_back(
      context.bind(desc, {{DNNL_ARG_SRC, context.plan.view(output_.gradients_region, out)},
                          {DNNL_ARG_WEIGHTS, backward_weights_},
                          {DNNL_ARG_DST, context.plan.view(input_.gradients_region, in)}}));
}

void Linear::load(std::span<const float> parameters) {
  // oneDNN only reads through these handles, though their type does not say so.
  auto* weights = const_cast<float*>(parameters.data());
  bias_.set_data_handle(weights + weight_count_);
  if (in_place_) {
    for (dnnl::memory* view : {&weights_, &forward_weights_, &backward_weights_})
      view->set_data_handle(weights);
  } else {
    plain_weights_.set_data_handle(weights);
    load_weights_.run(stream_);
  }
}

void Linear::forward(std::size_t size) {
  if (size < few_.size()) {
    few_[size].multiply(data<float>(input_.values[size]), data<float>(weights_), data<float>(bias_),
                        data<float>(output_.values[size]));
  } else {
    forward_[size - few_.size()].run(stream_);
  }
}

void Linear::backward_parameters(std::size_t size, Network::Pass pass, std::span<float> gradients) {
  weight_products_->add(size, pass, gradients);
}

void Linear::backward_input(std::size_t size) { backward_input_[size].run(stream_); }

}  // namespace evenstep::kernels::onednn
