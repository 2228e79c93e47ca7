#include "kernels/onednn/local_response_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/onednn/channel_loops.h"
#include "kernels/onednn/loops.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

using Maps = LocalResponseNorm::Maps;

/// sum[l] = the sum over the pixels from `before` ahead of (y, x) to `after` behind it, in both
/// directions, of what `read` makes of a value.
template <int lanes, typename Read>
EVENSTEP_INLINE void sum_around(const Maps& maps, const float* map, std::int64_t y, std::int64_t x,
                                std::int64_t before, std::int64_t after, Read read, float* sum) {
  const std::int64_t bottom = std::min(y + after + 1, maps.height);
  const std::int64_t right = std::min(x + after + 1, maps.width);
  for (int l = 0; l < lanes; ++l) sum[l] = 0;
  for (std::int64_t row = std::max<std::int64_t>(y - before, 0); row < bottom; ++row) {
    for (std::int64_t column = std::max<std::int64_t>(x - before, 0); column < right; ++column) {
      const float* values = map + (row * maps.width + column) * maps.inner;
      for (int l = 0; l < lanes; ++l) sum[l] += read(values[l]);
    }
  }
}

/// powers[l] = s[l]^-beta.
template <int lanes>
EVENSTEP_INLINE void raise(const float* s, float beta, float* powers) {
  if (beta == 0.75F) {
    for (int l = 0; l < lanes; ++l) powers[l] = 1 / (std::sqrt(s[l]) * std::sqrt(std::sqrt(s[l])));
  } else {
    for (int l = 0; l < lanes; ++l) powers[l] = std::pow(s[l], -beta);
  }
}

/// With s = 1 + alpha / n (sum of the n values x^2 around), dx = dy s^-beta - 2 alpha beta / n x
/// (sum around of dy x s^(-beta - 1)). `terms` holds what the latter sums.
template <int lanes>
EVENSTEP_INLINE void backward_lanes(const Maps& maps, const float* x, const float* dy, float* dx,
                                    float* terms) {
  const std::int64_t before = (maps.window - 1) / 2;
  const std::int64_t after = maps.window - 1 - before;
  const float share = maps.alpha / static_cast<float>(maps.window * maps.window);
  for (std::int64_t pixel = 0; pixel < maps.height * maps.width; ++pixel) {
    const std::int64_t at = pixel * maps.inner;
    float s[lanes];
    sum_around<lanes>(
        maps, x, pixel / maps.width, pixel % maps.width, before, after,
        [](float value) { return value * value; }, s);
    for (int l = 0; l < lanes; ++l) s[l] = 1 + share * s[l];
    float powers[lanes];
    raise<lanes>(s, maps.beta, powers);
    for (int l = 0; l < lanes; ++l) {
      dx[at + l] = dy[at + l] * powers[l];
      terms[at + l] = dx[at + l] * x[at + l] / s[l];
    }
  }
  for (std::int64_t pixel = 0; pixel < maps.height * maps.width; ++pixel) {
    const std::int64_t at = pixel * maps.inner;
    float sum[lanes];
    sum_around<lanes>(
        maps, terms, pixel / maps.width, pixel % maps.width, after, before,
        [](float value) { return value; }, sum);
    for (int l = 0; l < lanes; ++l) dx[at + l] -= 2 * share * maps.beta * x[at + l] * sum[l];
  }
}

/// Maps [first, last), each of `inner` channels.
EVENSTEP_MULTIVERSION void backward_part(const Maps& maps, const float* x, const float* dy,
                                         float* dx, float* terms, std::int64_t first,
                                         std::int64_t last) {
  const std::int64_t values = maps.height * maps.width * maps.inner;
  for (std::int64_t at = first * values; at < last * values; at += values) {
    std::int64_t lane = at;
    for (; lane + 8 <= at + maps.inner; lane += 8)
      backward_lanes<8>(maps, x + lane, dy + lane, dx + lane, terms + lane);
    for (; lane < at + maps.inner; ++lane)
      backward_lanes<1>(maps, x + lane, dy + lane, dx + lane, terms + lane);
  }
}

}  // namespace

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
  const MemoryPlan::Region terms_region = context.plan.new_region();
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
    if (is_reference(backward) && !spec.across_channels && context.dtype == Dtype::f32) {
      const channel_loops::View view = channel_loops::view_of(values);
      maps_ = {input.shape.height, input.shape.width, view.inner, spec.window.height, alpha, beta};
      map_counts_.push_back(values.get_dims()[0] * view.blocks);
      terms_ = context.plan.view(terms_region, values);  // in the end, of the largest
      backward_.emplace_back();
      continue;
    }
    map_counts_.push_back(0);
    backward_.push_back(context.bind(backward, {{DNNL_ARG_SRC, input.values[size]},
                                                {DNNL_ARG_DIFF_DST, output_.gradients[size]},
                                                {DNNL_ARG_WORKSPACE, workspace},
                                                {DNNL_ARG_DIFF_SRC, input.gradients[size]}}));
  }
}

void LocalResponseNorm::forward(std::size_t size) { forward_[size].run(stream_); }

void LocalResponseNorm::backward_input(std::size_t size) {
  if (map_counts_[size] == 0) {
    backward_[size].run(stream_);
    return;
  }
  loops::split_over_threads(map_counts_[size], 4, [&](std::int64_t first, std::int64_t last) {
    backward_part(maps_, data<float>(input_.values[size]), data<float>(output_.gradients[size]),
                  data<float>(input_.gradients[size]), data<float>(terms_), first, last);
  });
}

}  // namespace evenstep::kernels::onednn
