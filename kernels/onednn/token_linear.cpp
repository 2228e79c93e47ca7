#include "kernels/onednn/token_linear.h"

#include <algorithm>
#include <utility>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/token_rows.h"

namespace evenstep::kernels::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

dnnl::primitive_attr attributes_with(const dnnl::post_ops& post_ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  return attributes;
}

}  // namespace

TokenLinear::TokenLinear(Context& context, const Tensor& input, Options options)
    : input_(input),
      options_(std::move(options)),
      f32_(context.dtype == Dtype::f32),
      inputs_(input.shape.channels),
      outputs_(options_.outputs),
      stream_(context.stream) {
  const SampleShape shape{options_.outputs, input.shape.height, input.shape.width};
  output_ = make_token_rows(context, shape, options_.logits ? f32 : context.type);
  const Desc bias({1, outputs_}, f32, Tag::ab);
  bias_ = context.plan.view(context.plan.new_region(), bias);
  if (f32_) make_products(context);
  if (!forward_product_) make_forward(context);
  if (input.has_gradients() && !backward_product_) make_backward_input(context);
  make_weight_gradients(context);
}

void TokenLinear::make_products(Context& context) {
  if (DenseProduct::suits(outputs_))
    forward_product_.emplace(context, context.plan.new_region(), inputs_, outputs_);
  if (!DenseProduct::suits(inputs_)) return;
  if (input_.has_gradients())
    backward_product_.emplace(context, context.plan.new_region(), outputs_, inputs_);
  weight_product_.emplace(context, context.product_scratch,
                          row_count(input_, input_.counts.size() - 1), inputs_);
}

/// In the layout that suits the largest chunk: nearly all of the work is in such.
TokenLinear::Weights TokenLinear::make_weights(Context& context, const Desc& from, const Desc& to,
                                               const Desc& plain) {
  const Desc any(plain.get_dims(), context.type, Tag::any);
  const dnnl::matmul::primitive_desc desc(context.engine, from, any, to, context.attributes);
  Weights weights;
  weights.plain = dnnl::memory(plain, context.engine, DNNL_MEMORY_NONE);
  weights.ready = context.plan.view(context.plan.new_region(), desc.weights_desc());
  weights.load = context.reorder(weights.plain, weights.ready);
  return weights;
}

void TokenLinear::make_forward(Context& context) {
  const auto rows = [](const Tensor& tensor, std::size_t size, dnnl::memory::data_type type) {
    return Desc({row_count(tensor, size), tensor.shape.channels}, type, Tag::ab);
  };
  const auto values = options_.logits ? f32 : context.type;
  const std::size_t largest = input_.counts.size() - 1;
  forward_weights_ =
      make_weights(context, rows(input_, largest, context.type), rows(output_, largest, values),
                   Desc({inputs_, outputs_}, f32, Tag::ba));
  const Desc bias = bias_.get_desc();
  for (std::size_t size = 0; size <= largest; ++size) {
    const Desc in = rows(input_, size, context.type);
    const Desc out = rows(output_, size, values);
    dnnl::post_ops post_ops;
    std::vector<Call::Argument> arguments = {
        {DNNL_ARG_SRC, context.plan.view(input_.values_region, in)},
        {DNNL_ARG_WEIGHTS, forward_weights_.ready},
        {DNNL_ARG_BIAS, bias_},
        {DNNL_ARG_DST, context.plan.view(output_.values_region, out)}};
    if (options_.residual) {
      post_ops.append_binary(dnnl::algorithm::binary_add, out);
      arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
                           context.plan.view(options_.residual->values_region, out)});
    }
    const dnnl::matmul::primitive_desc desc(context.engine, in, forward_weights_.ready.get_desc(),
                                            bias, out, attributes_with(post_ops));
    forward_.push_back(context.bind(desc, std::move(arguments)));
  }
}

void TokenLinear::make_backward_input(Context& context) {
  const auto rows = [&](const Tensor& tensor, std::size_t size) {
    return Desc({row_count(tensor, size), tensor.shape.channels}, context.type, Tag::ab);
  };
  const std::size_t largest = input_.counts.size() - 1;
  backward_weights_ = make_weights(context, rows(output_, largest), rows(input_, largest),
                                   Desc({outputs_, inputs_}, f32, Tag::ab));
  for (std::size_t size = 0; size <= largest; ++size) {
    const Desc out = rows(output_, size);
    const Desc in = rows(input_, size);
    const dnnl::matmul::primitive_desc desc(context.engine, out, backward_weights_.ready.get_desc(),
                                            in, context.attributes);
    backward_input_.push_back(
        context.bind(desc, {{DNNL_ARG_SRC, context.plan.view(output_.gradients_region, out)},
                            {DNNL_ARG_WEIGHTS, backward_weights_.ready},
                            {DNNL_ARG_DST, context.plan.view(input_.gradients_region, in)}}));
  }
}

void TokenLinear::make_weight_gradients(Context& context) {
  const Desc weights({outputs_, inputs_}, f32, Tag::ab);
  weight_target_ = dnnl::memory(weights, context.engine, DNNL_MEMORY_NONE);
  weight_sums_ = options_.tied ? options_.tied->token_sums()
                               : context.plan.view(context.plan.new_region(), weights);
  bias_part_.resize(static_cast<std::size_t>(outputs_));
  bias_sums_.resize(bias_part_.size());
  if (weight_product_) return;
  dnnl::post_ops sum;
  sum.append_sum();
  for (std::size_t size = 0; size < input_.counts.size(); ++size) {
    const Desc out({outputs_, row_count(output_, size)}, context.type, Tag::ba);
    const Desc in({row_count(input_, size), inputs_}, context.type, Tag::ab);
    const dnnl::memory gradients = context.plan.view(output_.gradients_region, out);
    const dnnl::memory values = context.plan.view(input_.values_region, in);
    const auto make = [&](const dnnl::primitive_attr& attributes) {
      const dnnl::matmul::primitive_desc desc(context.engine, out, in, weights, attributes);
      return context.bind(
          desc,
          {{DNNL_ARG_SRC, gradients}, {DNNL_ARG_WEIGHTS, values}, {DNNL_ARG_DST, weight_target_}});
    };
    write_weights_.push_back(make(context.attributes));
    add_weights_.push_back(make(attributes_with(sum)));
  }
}

void TokenLinear::load(std::span<const float> parameters) {
  const float* weights = options_.tied ? data<float>(options_.tied->tokens()) : parameters.data();
  for (Weights* copy : {&forward_weights_, &backward_weights_}) {
    if (!copy->plain) continue;
    // oneDNN only reads through this handle, though its type does not say so.
    copy->plain.set_data_handle(const_cast<float*>(weights));
    copy->load.run(stream_);
  }
  if (forward_product_) forward_product_->load({weights, 1, inputs_}, inputs_);
  if (backward_product_) backward_product_->load({weights, inputs_, 1}, outputs_);
  if (!options_.tied) std::ranges::copy(parameters.last(bias_sums_.size()), data<float>(bias_));
}

void TokenLinear::forward(std::size_t size) {
  if (!forward_product_) return forward_[size].run(stream_);
  forward_product_->multiply(
      {data<float>(input_.values[size]), inputs_, 1}, row_count(input_, size),
      {data<float>(bias_),
       options_.residual ? data<float>(options_.residual->values[size]) : nullptr},
      data<float>(output_.values[size]));
}

void TokenLinear::backward_input(std::size_t size) {
  if (backward_product_) {
    backward_product_->multiply({data<float>(output_.gradients[size]), outputs_, 1},
                                row_count(output_, size), {}, data<float>(input_.gradients[size]));
  } else {
    backward_input_[size].run(stream_);
  }
  if (options_.residual && options_.residual->has_gradients())
    copy_gradients(output_, *options_.residual, size);
}

/// A share's only chunk writes where the caller wants its gradients; those of several are summed
/// apart, since the caller has no place for partial sums. A tied layer's stay with the embedding.
void TokenLinear::backward_parameters(std::size_t size, Network::Pass pass,
                                      std::span<float> gradients) {
  const bool straight = pass.first && pass.last && !options_.tied;
  weight_target_.set_data_handle(straight ? gradients.data() : weight_sums_.get_data_handle());
  multiply_weights(size, !pass.first);
  if (options_.tied) return;
  sum_bias(size, pass.first);
  if (!pass.last) return;
  if (!straight) std::copy_n(data<float>(weight_sums_), outputs_ * inputs_, gradients.data());
  std::ranges::copy(bias_sums_, gradients.begin() + outputs_ * inputs_);
}

void TokenLinear::multiply_weights(std::size_t size, bool add) {
  if (!weight_product_) return (add ? add_weights_ : write_weights_)[size].run(stream_);
  auto* target = data<float>(weight_target_);
  weight_product_->load({data<float>(input_.values[size]), inputs_, 1}, row_count(input_, size));
  weight_product_->multiply({data<float>(output_.gradients[size]), 1, outputs_}, outputs_,
                            {.values = add ? target : nullptr}, target);
}

void TokenLinear::sum_bias(std::size_t size, bool first) {
  const dnnl::memory& gradients = output_.gradients[size];
  const std::int64_t rows = row_count(output_, size);
  float* to = first ? bias_sums_.data() : bias_part_.data();
  if (f32_) {
    loops::sum_columns(data<float>(gradients), rows, outputs_, to);
  } else {
    loops::sum_columns(data<Bf16>(gradients), rows, outputs_, to);
  }
  if (!first) loops::add(bias_part_.data(), bias_sums_.data(), outputs_);
}

}  // namespace evenstep::kernels::onednn
