#include "kernels/onednn/embedding.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/token_rows.h"

namespace evenstep::kernels::onednn {
namespace {

template <typename T>
EVENSTEP_INLINE void sum_body(const float* __restrict token, const float* __restrict place,
                              std::int64_t features, T* __restrict out) {
  for (std::int64_t i = 0; i < features; ++i) narrow(token[i] + place[i], out[i]);
}

EVENSTEP_MULTIVERSION void sum(const float* token, const float* place, std::int64_t features,
                               float* out) {
  sum_body(token, place, features, out);
}
EVENSTEP_MULTIVERSION void sum(const float* token, const float* place, std::int64_t features,
                               Bf16* out) {
  sum_body(token, place, features, out);
}

template <typename T>
EVENSTEP_INLINE void add_body(const T* __restrict gradients, std::int64_t features,
                              float* __restrict token, float* __restrict place) {
  for (std::int64_t i = 0; i < features; ++i) {
    token[i] += widen(gradients[i]);
    place[i] += widen(gradients[i]);
  }
}

EVENSTEP_MULTIVERSION void add(const float* gradients, std::int64_t features, float* token,
                               float* place) {
  add_body(gradients, features, token, place);
}
EVENSTEP_MULTIVERSION void add(const Bf16* gradients, std::int64_t features, float* token,
                               float* place) {
  add_body(gradients, features, token, place);
}

}  // namespace

Embedding::Embedding(Context& context, const Node& node, bool tied)
    : context_(context),
      tied_(tied),
      classes_(node.classes),
      features_(node.output_shape.channels),
      places_(node.output_shape.height),
      place_values_(static_cast<std::size_t>(places_ * features_)),
      place_sums_(place_values_.size()) {
  const dnnl::memory::desc plain({classes_, features_}, dnnl::memory::data_type::f32,
                                 dnnl::memory::format_tag::ab);
  tokens_ = context.plan.view(context.plan.new_region(), plain);
  token_sums_ = context.plan.view(context.plan.new_region(), plain);
  output_ = make_token_rows(context, node.output_shape, context.type);
}

void Embedding::load(std::span<const float> parameters) {
  std::ranges::copy(parameters.last(place_values_.size()), place_values_.begin());
  std::copy_n(parameters.data(), classes_ * features_, data<float>(tokens_));
}

std::int64_t Embedding::token(std::int64_t row) const {
  const std::size_t first = context_.first_sample * static_cast<std::size_t>(places_);
  const std::int64_t token = context_.tokens[first + static_cast<std::size_t>(row)];
  if (token < 0 || token >= classes_) {
    throw std::out_of_range(fmt::format("token {} at place {} of a chunk: the vocabulary has {}",
                                        token, row, classes_));
  }
  return token;
}

template <typename T>
void Embedding::forward_as(std::size_t size) {
  T* out = data<T>(output_.values[size]);
  for (std::int64_t row = 0; row < row_count(output_, size); ++row) {
    sum(data<float>(tokens_) + token(row) * features_,
        place_values_.data() + row % places_ * features_, features_, out + row * features_);
  }
}

void Embedding::forward(std::size_t size) {
  context_.dtype == Dtype::f32 ? forward_as<float>(size) : forward_as<Bf16>(size);
}

template <typename T>
void Embedding::backward_as(std::size_t size) {
  const T* gradients = data<T>(output_.gradients[size]);
  for (std::int64_t row = 0; row < row_count(output_, size); ++row) {
    add(gradients + row * features_, features_, data<float>(token_sums_) + token(row) * features_,
        place_sums_.data() + row % places_ * features_);
  }
}

void Embedding::backward_parameters(std::size_t size, Network::Pass pass,
                                    std::span<float> gradients) {
  float* sums = data<float>(token_sums_);
  if (pass.first) {
    std::ranges::fill(place_sums_, 0.0F);
    if (!tied_) std::fill_n(sums, classes_ * features_, 0.0F);
  }
  context_.dtype == Dtype::f32 ? backward_as<float>(size) : backward_as<Bf16>(size);
  if (!pass.last) return;
  std::copy_n(sums, classes_ * features_, gradients.begin());
  std::ranges::copy(place_sums_, gradients.begin() + classes_ * features_);
}

}  // namespace evenstep::kernels::onednn
