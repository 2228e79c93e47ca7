#include "kernels/onednn/linear.h"

#include <algorithm>

#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

/// From so many samples on skipping zeros pays for putting the weights into panels.
constexpr int least_sparse = 32;

}  // namespace

Linear::Linear(Context& context, const Tensor& input, const Options& options)
    : input_(input),
      outputs_(options.outputs),
      inputs_(element_count(input.values[0].get_desc()) / context.menu.sizes()[0]),
      weight_count_(options.outputs * input.shape.elements()),
      stream_(context.stream),
      background_(options.background_in) {
  output_.shape = {options.outputs, 1, 1};
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  make_output(context, options.logits);
  make_weights(context, options.zeros_in_backward);
  if (context.dtype == Dtype::f32 && context.menu.usual() >= least_sparse)
    make_sparse(context, options);
  for (std::size_t size = 0; size < input.values.size(); ++size) {
    const int samples = context.menu.sizes()[size];
    const FewRows rows{samples, inputs_, outputs_};
    if (context.dtype == Dtype::f32 && rows.suits()) {
      few_.push_back(rows);
    } else if (!sparse_forward_ || samples < least_sparse) {
      make_forward(context, size);
    }
    if (input.has_gradients() && (!sparse_backward_ || samples < least_sparse))
      make_backward_input(context, size);
  }
}

void Linear::make_sparse(Context& context, const Options& options) {
  const int samples = context.menu.usual();
  const auto forward_panel = SparseProduct::panel_for(outputs_);
  if (forward_panel && (options.zeros_in || background_)) {
    sparse_forward_.emplace(context, *forward_panel, samples, inputs_);
    backgrounds_.resize(static_cast<std::size_t>(samples));
    row_sums_.resize(static_cast<std::size_t>(outputs_));
  }
  const auto backward_panel = SparseProduct::panel_for(inputs_);
  if (backward_panel && options.zeros_in_backward && input_.has_gradients())
    sparse_backward_.emplace(context, *backward_panel, samples, outputs_);
}

void Linear::make_output(Context& context, bool logits) {
  for (int samples : context.menu.sizes()) {
    const dnnl::memory::dims dims{samples, outputs_, 1, 1};
    output_.add_values(context.plan, Desc(dims, logits ? f32 : context.type, Tag::nchw));
    output_.add_gradients(context.plan, Desc(dims, context.type, Tag::nchw));
  }
}

void Linear::make_weights(Context& context, bool zeros_in_backward) {
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
  weight_products_.emplace(context, input_, output_, Desc(dims, f32, layout), plain,
                           zeros_in_backward);
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
  if (background_ && sparse_forward_)
    loops::sum_rows(data<float>(weights_), outputs_, inputs_, row_sums_.data());
}

void Linear::forward(std::size_t size) {
  if (size < few_.size()) {
    few_[size].multiply(data<float>(input_.values[size]), data<float>(weights_), data<float>(bias_),
                        data<float>(output_.values[size]));
  } else if (size < few_.size() + forward_.size()) {
    forward_[size - few_.size()].run(stream_);
  } else {
    forward_sparse(size);
  }
}

/// A background adds as much to an output as if all the input had that value, so only what differs
/// from it need be multiplied. Where it is none it would only cost accuracy.
void Linear::forward_sparse(std::size_t size) {
  const std::int64_t samples = output_.counts[size] / outputs_;
  const auto* values = data<float>(input_.values[size]);
  const auto* biases = data<float>(bias_);
  auto* results = data<float>(output_.values[size]);
  for (std::int64_t s = 0; s < samples; ++s) {
    const float* sample = values + s * inputs_;
    const float background = background_ && sample[0] == sample[inputs_ - 1] ? sample[0] : 0;
    backgrounds_[static_cast<std::size_t>(s)] = background;
    for (std::int64_t o = 0; o < outputs_; ++o)
      results[s * outputs_ + o] = biases[o] + background * row_sums_[static_cast<std::size_t>(o)];
  }
  sparse_forward_->list({values, inputs_, 1}, samples, inputs_, backgrounds_.data());
  sparse_forward_->multiply({data<float>(weights_), 1, inputs_}, outputs_, true, results);
}

void Linear::backward_parameters(std::size_t size, Network::Pass pass, std::span<float> gradients) {
  weight_products_->add(size, pass, gradients);
}

void Linear::backward_input(std::size_t size) {
  if (size < backward_input_.size()) {
    backward_input_[size].run(stream_);
    return;
  }
  sparse_backward_->list({data<float>(output_.gradients[size]), outputs_, 1},
                         output_.counts[size] / outputs_, outputs_);
  sparse_backward_->multiply({data<float>(weights_), inputs_, 1}, inputs_, false,
                             data<float>(input_.gradients[size]));
}

}  // namespace evenstep::kernels::onednn
