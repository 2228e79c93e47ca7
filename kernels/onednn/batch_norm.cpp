#include "kernels/onednn/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace evenstep::kernels::onednn {
namespace {

using channel_loops::Column;

}  // namespace

BatchNorm::BatchNorm(Context& context, const Tensor& input, Options options)
    : input_(input),
      options_(std::move(options)),
      f32_(context.dtype == Dtype::f32),
      samples_(context.menu.sizes().begin(), context.menu.sizes().end()),
      view_(channel_loops::view_of(input.values.back().get_desc())),
      lanes_(channel_loops::lanes_of(view_)),
      channels_(static_cast<std::size_t>(input.shape.channels)) {
  output_.shape = input.shape;
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  for (const dnnl::memory& values : input.values) {
    output_.add_values(context.plan, values.get_desc());
    output_.add_gradients(context.plan, values.get_desc());
  }
  const auto padded = static_cast<std::size_t>(view_.channels());
  for (Values* values : {&weight_, &bias_, &average_mean_, &average_variance_, &weight_sums_,
                         &bias_sums_, &mean_sums_, &variance_sums_})
    values->resize(padded);
  const Groups most = groups_of(samples_.size() - 1);
  const auto count = static_cast<std::size_t>(most.count) * padded;
  for (Values* values : {&shift_, &gradient_sums_, &gradient_products_, &of_x_, &constant_})
    values->resize(count);
  for (Kept* kept : {&mean_, &variance_, &scale_}) *kept = Kept(context, count);
}

BatchNorm::Groups BatchNorm::groups_of(std::size_t size) const {
  const std::int64_t samples = std::min<std::int64_t>(samples_[size], options_.group);
  return {samples_[size] / samples, samples};
}

void BatchNorm::load(std::span<const float> parameters) {
  std::ranges::copy(parameters.first(channels_), weight_.begin());
  std::ranges::copy(parameters.last(channels_), bias_.begin());
}

void BatchNorm::load_averages(std::span<const float> averages) {
  std::ranges::copy(averages.first(channels_), average_mean_.begin());
  std::ranges::copy(averages.last(channels_), average_variance_.begin());
}

/// Calls run(column, first value, group, first channel) for each group and vector of channels.
template <typename Run>
void BatchNorm::for_each_column(Groups groups, Run run) const {
  const std::int64_t vectors = view_.channels() / lanes_;
  const std::int64_t sample_stride = view_.channels() * view_.pixels;
  const std::int64_t grain =
      std::max<std::int64_t>(1, (1 << 14) / (groups.samples * view_.pixels * lanes_));
  loops::split_over_threads(
      groups.count * vectors, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t channel = i % vectors * lanes_;
          const std::int64_t first = i / vectors * groups.samples * sample_stride +
                                     channel / view_.inner * view_.pixels * view_.inner +
                                     channel % view_.inner;
          const Column column{groups.samples, sample_stride, view_.pixels, view_.inner, lanes_};
          run(column, first, static_cast<std::size_t>(i / vectors),
              static_cast<std::size_t>(channel));
        }
      });
}

/// What normalises channel `channel`, into place `at`.
void BatchNorm::set_affine(std::size_t at, std::size_t channel, float mean, float variance) {
  scale_[at] = weight_[channel] / std::sqrt(variance + static_cast<float>(options_.epsilon));
  shift_[at] = bias_[channel] - mean * scale_[at];
}

/// `measure`: by the groups' own statistics; else by the averages.
template <typename T>
void BatchNorm::normalise(std::size_t size, bool measure) {
  const auto padded = static_cast<std::size_t>(view_.channels());
  const T* x = data<T>(input_.values[size]);
  T* y = data<T>(output_.values[size]);
  const T* residual = options_.residual ? data<T>(options_.residual->values[size]) : nullptr;
  for_each_column(groups_of(size), [&](const Column& column, std::int64_t first, std::size_t group,
                                       std::size_t channel) {
    const std::size_t at = group * padded + channel;
    if (measure) channel_loops::statistics(column, x + first, &mean_[at], &variance_[at]);
    for (std::size_t l = 0; l < static_cast<std::size_t>(lanes_); ++l) {
      const float mean = measure ? mean_[at + l] : average_mean_[channel + l];
      const float variance = measure ? variance_[at + l] : average_variance_[channel + l];
      set_affine(at + l, channel + l, mean, variance);
    }
    channel_loops::normalise(column, {&scale_[at], &shift_[at], options_.relu}, x + first,
                             residual ? residual + first : nullptr, y + first);
  });
}

void BatchNorm::forward(std::size_t size) {
  f32_ ? normalise<float>(size, true) : normalise<Bf16>(size, true);
}

void BatchNorm::evaluate(std::size_t size) {
  f32_ ? normalise<float>(size, false) : normalise<Bf16>(size, false);
}

template <typename T>
void BatchNorm::sum_gradients(std::size_t size) {
  const auto padded = static_cast<std::size_t>(view_.channels());
  const T* x = data<T>(input_.values[size]);
  const T* y = options_.relu ? data<T>(output_.values[size]) : nullptr;
  T* gradients = data<T>(output_.gradients[size]);
  for_each_column(groups_of(size), [&](const Column& column, std::int64_t first, std::size_t group,
                                       std::size_t channel) {
    const std::size_t at = group * padded + channel;
    channel_loops::gradient_sums(column, x + first, y ? y + first : nullptr, gradients + first,
                                 &mean_[at], &gradient_sums_[at], &gradient_products_[at]);
  });
}

void BatchNorm::backward_parameters(std::size_t size, Network::Pass pass,
                                    std::span<float> gradients) {
  f32_ ? sum_gradients<float>(size) : sum_gradients<Bf16>(size);
  const auto padded = static_cast<std::size_t>(view_.channels());
  if (pass.first) {
    std::ranges::fill(weight_sums_, 0.0F);
    std::ranges::fill(bias_sums_, 0.0F);
  }
  const auto epsilon = static_cast<float>(options_.epsilon);
  for (std::size_t at = 0; at < static_cast<std::size_t>(groups_of(size).count) * padded; ++at) {
    weight_sums_[at % padded] += gradient_products_[at] / std::sqrt(variance_[at] + epsilon);
    bias_sums_[at % padded] += gradient_sums_[at];
  }
  if (!pass.last) return;
  std::copy_n(weight_sums_.begin(), channels_, gradients.begin());
  std::copy_n(bias_sums_.begin(), channels_, gradients.begin() + channels_);
}

/// The gradient of the input is scale (g - mean(g) - (x - mean) mean(g (x - mean)) / variance).
template <typename T>
void BatchNorm::combine_gradients(std::size_t size) {
  const auto padded = static_cast<std::size_t>(view_.channels());
  const auto epsilon = static_cast<float>(options_.epsilon);
  const T* x = data<T>(input_.values[size]);
  const T* gradients = data<T>(output_.gradients[size]);
  T* input_gradients = data<T>(input_.gradients[size]);
  for_each_column(groups_of(size), [&](const Column& column, std::int64_t first, std::size_t group,
                                       std::size_t channel) {
    const std::size_t at = group * padded + channel;
    const float share = 1 / column.count();
    for (std::size_t i = at; i < at + static_cast<std::size_t>(lanes_); ++i) {
      of_x_[i] = -scale_[i] * gradient_products_[i] * share / (variance_[i] + epsilon);
      constant_[i] = -scale_[i] * gradient_sums_[i] * share - of_x_[i] * mean_[i];
    }
    channel_loops::combine(column, {&scale_[at], &of_x_[at], &constant_[at]}, x + first,
                           gradients + first, input_gradients + first);
  });
}

void BatchNorm::backward_input(std::size_t size) {
  if (input_.has_gradients()) f32_ ? combine_gradients<float>(size) : combine_gradients<Bf16>(size);
  if (options_.residual && options_.residual->has_gradients())
    copy_gradients(output_, *options_.residual, size);
}

void BatchNorm::sum_averages(std::size_t size, Network::Pass pass, std::span<float> sums) {
  const auto padded = static_cast<std::size_t>(view_.channels());
  if (pass.first) {
    std::ranges::fill(mean_sums_, 0.0F);
    std::ranges::fill(variance_sums_, 0.0F);
  }
  const Groups groups = groups_of(size);
  const auto samples = static_cast<float>(groups.samples);
  const float values = samples * static_cast<float>(view_.pixels);
  const float unbiased = values > 1 ? values / (values - 1) : 1;
  for (std::size_t at = 0; at < static_cast<std::size_t>(groups.count) * padded; ++at) {
    mean_sums_[at % padded] += samples * mean_[at];
    variance_sums_[at % padded] += samples * unbiased * variance_[at];
  }
  if (!pass.last) return;
  std::copy_n(mean_sums_.begin(), channels_, sums.begin());
  std::copy_n(variance_sums_.begin(), channels_, sums.begin() + channels_);
}

}  // namespace evenstep::kernels::onednn
