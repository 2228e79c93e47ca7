#include "kernels/onednn/weight_products.h"

#include <algorithm>
#include <cstring>

#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

// Samples for which a product runs at full speed: more would only take more memory.
constexpr std::int64_t enough = 128;
constexpr std::int64_t product_sizes = 16;

}  // namespace

WeightProducts::WeightProducts(Context& context, const Tensor& input, const Tensor& output,
                               const Desc& written, const Desc& plain, bool sparse)
    : input_(input),
      output_(output),
      inputs_(input.counts[0] / context.menu.sizes()[0]),
      outputs_(output.counts[0] / context.menu.sizes()[0]),
      f32_(context.dtype == Dtype::f32),
      capacity_(std::max<std::int64_t>(enough, context.menu.usual())),
      granule_(capacity_ / product_sizes),
      stream_(context.stream),
      weight_count_(element_count(plain)) {
  const auto place_for = [&](std::int64_t elements) {
    return context.plan.view(context.plan.new_region(),
                             Desc({capacity_, elements}, context.type, Tag::ab));
  };
  kept_inputs_ = place_for(inputs_);
  kept_output_gradients_ = place_for(outputs_);
  const Desc rows({outputs_, inputs_}, f32, Tag::ab);
  const Desc bias({outputs_}, f32, Tag::a);
  weight_sum_ = GradientSum(context, context.weight_part, written, plain, rows);
  bias_sum_ = GradientSum(context, context.bias_part, bias, bias, bias);
  const auto panel = SparseProduct::panel_for(inputs_);
  if (sparse && f32_ && panel) {
    sparse_product_.emplace(context, *panel, outputs_, capacity_);
    return;
  }
  for (std::int64_t samples = granule_; samples <= capacity_; samples += granule_) {
    make_product(context, samples);
  }
}

void WeightProducts::make_product(Context& context, std::int64_t samples) {
  const Desc output_gradients({outputs_, samples}, context.type, Tag::ba);
  const Desc inputs({samples, inputs_}, context.type, Tag::ab);
  const dnnl::matmul::primitive_desc desc(context.engine, output_gradients, inputs,
                                          weight_sum_.target().get_desc(), context.attributes);
  Product product;
  product.output_gradients = dnnl::memory(output_gradients, context.engine, DNNL_MEMORY_NONE);
  product.inputs = dnnl::memory(inputs, context.engine, DNNL_MEMORY_NONE);
  product.call = context.bind(desc, {{DNNL_ARG_SRC, product.output_gradients},
                                     {DNNL_ARG_WEIGHTS, product.inputs},
                                     {DNNL_ARG_DST, weight_sum_.target()}});
  products_.push_back(std::move(product));
}

void WeightProducts::add(std::size_t size, Network::Pass pass, std::span<float> gradients) {
  const Samples chunk{output_.gradients[size].get_data_handle(),
                      input_.values[size].get_data_handle(), output_.counts[size] / outputs_};
  if (pass.first) {
    kept_count_ = 0;
    first_ = true;
  }
  if (kept_count_ + chunk.count > capacity_) multiply_kept(false, {});
  const bool enough_now = pass.last || chunk.count == capacity_;
  if (enough_now && kept_count_ == 0 && chunk.count % granule_ == 0) {
    multiply(chunk, pass.last, gradients);  // from where it is
    return;
  }
  keep(chunk);
  if (pass.last) multiply_kept(true, gradients);
}

void WeightProducts::keep(const Samples& chunk) {
  const auto append = [&](const dnnl::memory& kept, const void* from, std::int64_t elements) {
    std::memcpy(kept_row(kept, kept_count_, elements), from, bytes(chunk.count * elements));
  };
  append(kept_output_gradients_, chunk.output_gradients, outputs_);
  append(kept_inputs_, chunk.inputs, inputs_);
  kept_count_ += chunk.count;
}

void WeightProducts::multiply_kept(bool last, std::span<float> gradients) {
  const std::int64_t missing = (granule_ - kept_count_ % granule_) % granule_;
  const auto fill = [&](const dnnl::memory& kept, std::int64_t elements) {
    std::memset(kept_row(kept, kept_count_, elements), 0, bytes(missing * elements));
  };
  fill(kept_output_gradients_, outputs_);
  fill(kept_inputs_, inputs_);
  multiply({kept_output_gradients_.get_data_handle(), kept_inputs_.get_data_handle(),
            kept_count_ + missing},
           last, gradients);
  kept_count_ = 0;
}

/// Adds the gradients of `samples`, a multiple of the granule; `last`: hands over the sums.
void WeightProducts::multiply(const Samples& samples, bool last, std::span<float> gradients) {
  const Network::Pass pass{first_, last};
  float* bias_gradients = last ? gradients.data() + weight_count_ : nullptr;
  weight_sum_.begin(pass, gradients.data());
  multiply_weights(samples);
  weight_sum_.end(stream_, pass, gradients.data());

  bias_sum_.begin(pass, bias_gradients);
  sum_columns(samples.output_gradients, samples.count, data<float>(bias_sum_.target()));
  bias_sum_.end(stream_, pass, bias_gradients);
  first_ = false;
}

void WeightProducts::multiply_weights(const Samples& samples) {
  if (sparse_product_) {
    sparse_product_->list({static_cast<const float*>(samples.output_gradients), 1, outputs_},
                          outputs_, samples.count);
    sparse_product_->multiply({static_cast<const float*>(samples.inputs), inputs_, 1}, inputs_,
                              false, data<float>(weight_sum_.target()));
    return;
  }
  const Product& product = products_[static_cast<std::size_t>(samples.count / granule_ - 1)];
  product.output_gradients.set_data_handle(samples.output_gradients);
  product.inputs.set_data_handle(samples.inputs);
  product.call.run(stream_);
}

void WeightProducts::sum_columns(const void* rows, std::int64_t count, float* sums) const {
  if (f32_) {
    loops::sum_columns(static_cast<const float*>(rows), count, outputs_, sums);
  } else {
    loops::sum_columns(static_cast<const loops::Bf16*>(rows), count, outputs_, sums);
  }
}

std::byte* WeightProducts::kept_row(const dnnl::memory& kept, std::int64_t row,
                                    std::int64_t elements) const {
  return data<std::byte>(kept) + bytes(row * elements);
}

std::size_t WeightProducts::bytes(std::int64_t elements) const {
  return static_cast<std::size_t>(elements) * (f32_ ? sizeof(float) : sizeof(loops::Bf16));
}

}  // namespace evenstep::kernels::onednn
