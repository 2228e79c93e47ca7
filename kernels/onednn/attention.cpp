#include "kernels/onednn/attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/token_rows.h"

namespace evenstep::kernels::onednn {
namespace {

using attention_loops::block_rows;
using attention_loops::multiply;
using attention_loops::pack;
using attention_loops::padded;
using attention_loops::Rows;
using attention_loops::unpack;

enum Part { query_part, key_part, value_part, parts };

}  // namespace

Attention::Attention(Context& context, const Tensor& input, int heads)
    : input_(input),
      f32_(context.dtype == Dtype::f32),
      heads_(heads),
      tokens_(input.shape.height),
      features_(input.shape.channels / parts / heads),
      padded_tokens_(padded(tokens_)),
      padded_features_(padded(features_)),
      scale_(1 / std::sqrt(static_cast<float>(features_))),
      threads_(omp_get_max_threads()),
      scratch_floats_(9 * padded_tokens_ * padded_features_ + 2 * block_rows * padded_tokens_ +
                      block_rows * (padded_features_ + 1) + padded_tokens_) {
  output_ = make_token_rows(
      context, {input.shape.channels / parts, input.shape.height, input.shape.width}, context.type);
  const dnnl::memory::desc all({threads_, scratch_floats_}, dnnl::memory::data_type::f32,
                               dnnl::memory::format_tag::ab);
  scratch_ = context.plan.view(context.scratchpad, all);
  logarithms_ =
      Kept(context, static_cast<std::size_t>(context.menu.usual() * heads_ * padded_tokens_));
}

Attention::Scratch Attention::scratch() const {
  float* next = data<float>(scratch_) + omp_get_thread_num() * scratch_floats_;
  const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
  const std::int64_t matrix = padded_tokens_ * padded_features_;
  const std::int64_t block = block_rows * padded_tokens_;
  Scratch s{};
  for (float** place : {&s.queries, &s.keys, &s.keys_t, &s.values, &s.values_t, &s.output,
                        &s.output_gradients, &s.key_gradients, &s.value_gradients})
    *place = take(matrix);
  s.scores = take(block);
  s.gradients = take(block);
  s.block = take(block_rows * padded_features_);
  s.scales = take(block_rows);
  s.sums = take(padded_tokens_);
  return s;
}

template <typename Run>
void Attention::for_each_head(std::size_t size, Run run) {
  const std::int64_t count = row_count(input_, size) / tokens_ * heads_;
  loops::split_over_threads(
      count, 1,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) run(Head{i / heads_, i % heads_});
      },
      threads_);
}

/// The head's part of the rows of its sequence.
template <typename T>
Rows<T> Attention::rows(const dnnl::memory& memory, Head head, int part,
                        std::int64_t features) const {
  const std::int64_t column = part * heads_ * features_ + head.head * features_;
  return {data<std::remove_const_t<T>>(memory) + head.sequence * tokens_ * features + column,
          features};
}

template <typename T>
void Attention::pack_inputs(std::size_t size, Head head, const Scratch& s) {
  const std::int64_t stride = padded_features_;
  const auto take = [&](Part part, float scale, float* to) {
    pack(rows<const T>(input_.values[size], head, part, input_.shape.channels), tokens_, features_,
         scale, {to, stride});
  };
  take(query_part, scale_, s.queries);
  take(key_part, 1, s.keys);
  take(value_part, 1, s.values);
  attention_loops::transpose({s.keys, stride}, padded_tokens_, stride, {s.keys_t, padded_tokens_});
}

/// Of the queries from `first` to before `seen`, with the keys before `seen`.
void Attention::score_block(const Scratch& s, std::int64_t first, std::int64_t seen) {
  multiply({s.queries + first * padded_features_, padded_features_, 1}, {s.keys_t, padded_tokens_},
           {s.scores, padded_tokens_}, seen - first, seen, padded_features_, false);
}

template <typename T>
void Attention::forward_head(std::size_t size, Head head) {
  const Scratch s = scratch();
  float* logarithms = logarithms_.begin() + (head.sequence * heads_ + head.head) * padded_tokens_;
  const auto out = rows<T>(output_.values[size], head, 0, output_.shape.channels);
  pack_inputs<T>(size, head, s);
  for (std::int64_t first = 0; first < tokens_; first += block_rows) {
    const std::int64_t seen = std::min(first + block_rows, padded_tokens_);
    score_block(s, first, seen);
    attention_loops::softmax({s.scores, padded_tokens_}, first, seen - first, seen, s.scales,
                             logarithms + first);
    multiply({s.scores, padded_tokens_, 1}, {s.values, padded_features_},
             {s.block, padded_features_}, seen - first, padded_features_, seen, false);
    unpack({s.block, padded_features_}, std::min(seen, tokens_) - first, features_, s.scales,
           {out.first + first * out.stride, out.stride});
  }
}

/// With scores S, probabilities P = softmax(S) and output O = P V: dV = P^T dO, dP = dO V^T,
/// dS = P (dP - sum of each row of O dO), dQ = dS K, dK = dS^T Q.
template <typename T>
void Attention::backward_head(std::size_t size, Head head) {
  const Scratch s = scratch();
  const std::int64_t stride = padded_features_;
  const std::int64_t tokens = padded_tokens_;
  const float* logarithms =
      logarithms_.begin() + (head.sequence * heads_ + head.head) * padded_tokens_;
  const std::int64_t width = output_.shape.channels;
  pack_inputs<T>(size, head, s);
  attention_loops::transpose({s.values, stride}, tokens, stride, {s.values_t, tokens});
  pack(rows<const T>(output_.values[size], head, 0, width), tokens_, features_, 1,
       {s.output, stride});
  pack(rows<const T>(output_.gradients[size], head, 0, width), tokens_, features_, 1,
       {s.output_gradients, stride});
  attention_loops::row_products({s.output, stride}, {s.output_gradients, stride}, tokens, stride,
                                s.sums);
  std::fill_n(s.key_gradients, tokens * stride, 0.0F);
  std::fill_n(s.value_gradients, tokens * stride, 0.0F);
  std::fill_n(s.scales, block_rows, scale_);
  const auto to = [&](Part part) {
    return rows<T>(input_.gradients[size], head, part, input_.shape.channels);
  };
  for (std::int64_t first = 0; first < tokens_; first += block_rows) {
    const std::int64_t seen = std::min(first + block_rows, tokens);
    const std::int64_t queries = seen - first;
    const float* output_gradients = s.output_gradients + first * stride;
    score_block(s, first, seen);
    multiply({output_gradients, stride, 1}, {s.values_t, tokens}, {s.gradients, tokens}, queries,
             seen, stride, false);
    attention_loops::softmax_backward({s.scores, tokens}, {s.gradients, tokens}, first, queries,
                                      seen, logarithms + first, s.sums + first);
    multiply({s.scores, 1, tokens}, {output_gradients, stride}, {s.value_gradients, stride}, seen,
             stride, queries, true);
    multiply({s.gradients, 1, tokens}, {s.queries + first * stride, stride},
             {s.key_gradients, stride}, seen, stride, queries, true);
    multiply({s.gradients, tokens, 1}, {s.keys, stride}, {s.block, stride}, queries, stride, seen,
             false);
    const auto gradients = to(query_part);
    unpack({s.block, stride}, std::min(seen, tokens_) - first, features_, s.scales,
           {gradients.first + first * gradients.stride, gradients.stride});
  }
  unpack({s.key_gradients, stride}, tokens_, features_, nullptr, to(key_part));
  unpack({s.value_gradients, stride}, tokens_, features_, nullptr, to(value_part));
}

void Attention::forward(std::size_t size) {
  for_each_head(size, [&](Head head) {
    f32_ ? forward_head<float>(size, head) : forward_head<Bf16>(size, head);
  });
}

void Attention::backward_input(std::size_t size) {
  for_each_head(size, [&](Head head) {
    f32_ ? backward_head<float>(size, head) : backward_head<Bf16>(size, head);
  });
}

}  // namespace evenstep::kernels::onednn
