#include "kernels/onednn/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/token_rows.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr std::int64_t grain = 8192;  // elements worth a thread

struct Statistics {
  float mean;
  float scale;  // 1 / deviation
};

template <typename T>
EVENSTEP_INLINE Statistics normalise_body(const T* __restrict x, std::int64_t features,
                                          float epsilon, const float* __restrict weight,
                                          const float* __restrict bias, T* __restrict y) {
  const auto count = static_cast<float>(features);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < features; ++i) sum += widen(x[i]);
  const float mean = sum / count;
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < features; ++i)
    squares += (widen(x[i]) - mean) * (widen(x[i]) - mean);
  const float scale = 1 / std::sqrt(squares / count + epsilon);
  for (std::int64_t i = 0; i < features; ++i)
    narrow((widen(x[i]) - mean) * scale * weight[i] + bias[i], y[i]);
  return {mean, scale};
}

EVENSTEP_MULTIVERSION Statistics normalise(const float* x, std::int64_t features, float epsilon,
                                           const float* weight, const float* bias, float* y) {
  return normalise_body(x, features, epsilon, weight, bias, y);
}
EVENSTEP_MULTIVERSION Statistics normalise(const Bf16* x, std::int64_t features, float epsilon,
                                           const float* weight, const float* bias, Bf16* y) {
  return normalise_body(x, features, epsilon, weight, bias, y);
}

template <typename T>
EVENSTEP_INLINE void sum_body(const T* __restrict x, const T* __restrict gradients,
                              std::int64_t features, Statistics s, float* __restrict weight_sums,
                              float* __restrict bias_sums) {
  for (std::int64_t i = 0; i < features; ++i) {
    const float g = widen(gradients[i]);
    weight_sums[i] += g * (widen(x[i]) - s.mean) * s.scale;
    bias_sums[i] += g;
  }
}

EVENSTEP_MULTIVERSION void sum_row(const float* x, const float* gradients, std::int64_t features,
                                   Statistics s, float* weight_sums, float* bias_sums) {
  sum_body(x, gradients, features, s, weight_sums, bias_sums);
}
EVENSTEP_MULTIVERSION void sum_row(const Bf16* x, const Bf16* gradients, std::int64_t features,
                                   Statistics s, float* weight_sums, float* bias_sums) {
  sum_body(x, gradients, features, s, weight_sums, bias_sums);
}

/// scale (w g - mean(w g) - n mean(w g n)), where n is x normalised.
template <typename T>
EVENSTEP_INLINE void backward_body(const T* __restrict x, const T* __restrict gradients,
                                   std::int64_t features, Statistics s,
                                   const float* __restrict weight, bool adds,
                                   T* __restrict input_gradients) {
  float sum = 0;
  float products = 0;
#pragma omp simd reduction(+ : sum, products)
  for (std::int64_t i = 0; i < features; ++i) {
    const float g = widen(gradients[i]) * weight[i];
    sum += g;
    products += g * (widen(x[i]) - s.mean);
  }
  const auto count = static_cast<float>(features);
  const float mean = sum / count;
  const float slope = products / count * s.scale * s.scale;
  for (std::int64_t i = 0; i < features; ++i) {
    const float g = widen(gradients[i]) * weight[i];
    const float before = adds ? widen(input_gradients[i]) : 0;
    narrow(before + s.scale * (g - mean - (widen(x[i]) - s.mean) * slope), input_gradients[i]);
  }
}

EVENSTEP_MULTIVERSION void backward_row(const float* x, const float* gradients,
                                        std::int64_t features, Statistics s, const float* weight,
                                        bool adds, float* input_gradients) {
  backward_body(x, gradients, features, s, weight, adds, input_gradients);
}
EVENSTEP_MULTIVERSION void backward_row(const Bf16* x, const Bf16* gradients, std::int64_t features,
                                        Statistics s, const float* weight, bool adds,
                                        Bf16* input_gradients) {
  backward_body(x, gradients, features, s, weight, adds, input_gradients);
}

}  // namespace

LayerNorm::LayerNorm(Context& context, const Tensor& input, double epsilon, bool adds)
    : input_(input),
      epsilon_(static_cast<float>(epsilon)),
      adds_(adds),
      f32_(context.dtype == Dtype::f32),
      features_(input.shape.channels) {
  output_ = make_token_rows(context, input.shape, context.type);
  for (auto* values : {&weight_, &bias_, &weight_sums_, &bias_sums_})
    values->resize(static_cast<std::size_t>(features_));
  const auto rows = static_cast<std::size_t>(row_count(input, input.counts.size() - 1));
  for (Kept* kept : {&mean_, &scale_}) *kept = Kept(context, rows);
}

void LayerNorm::load(std::span<const float> parameters) {
  std::ranges::copy(parameters.first(weight_.size()), weight_.begin());
  std::ranges::copy(parameters.last(bias_.size()), bias_.begin());
}

template <typename T>
void LayerNorm::forward_as(std::size_t size) {
  const T* x = data<T>(input_.values[size]);
  T* y = data<T>(output_.values[size]);
  loops::split_over_threads(
      row_count(input_, size), grain / features_, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; ++row) {
          const std::int64_t at = row * features_;
          const Statistics s =
              normalise(x + at, features_, epsilon_, weight_.data(), bias_.data(), y + at);
          mean_[static_cast<std::size_t>(row)] = s.mean;
          scale_[static_cast<std::size_t>(row)] = s.scale;
        }
      });
}

void LayerNorm::forward(std::size_t size) {
  f32_ ? forward_as<float>(size) : forward_as<Bf16>(size);
}

template <typename T>
void LayerNorm::backward_parameters_as(std::size_t size) {
  const T* x = data<T>(input_.values[size]);
  const T* gradients = data<T>(output_.gradients[size]);
  for (std::int64_t row = 0; row < row_count(input_, size); ++row) {
    const auto r = static_cast<std::size_t>(row);
    sum_row(x + row * features_, gradients + row * features_, features_, {mean_[r], scale_[r]},
            weight_sums_.data(), bias_sums_.data());
  }
}

void LayerNorm::backward_parameters(std::size_t size, Network::Pass pass,
                                    std::span<float> gradients) {
  if (pass.first) {
    std::ranges::fill(weight_sums_, 0.0F);
    std::ranges::fill(bias_sums_, 0.0F);
  }
  f32_ ? backward_parameters_as<float>(size) : backward_parameters_as<Bf16>(size);
  if (!pass.last) return;
  std::ranges::copy(weight_sums_, gradients.begin());
  std::ranges::copy(bias_sums_, gradients.begin() + features_);
}

template <typename T>
void LayerNorm::backward_input_as(std::size_t size) {
  const T* x = data<T>(input_.values[size]);
  const T* gradients = data<T>(output_.gradients[size]);
  T* input_gradients = data<T>(input_.gradients[size]);
  loops::split_over_threads(
      row_count(input_, size), grain / features_, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; ++row) {
          const auto r = static_cast<std::size_t>(row);
          const std::int64_t at = row * features_;
          backward_row(x + at, gradients + at, features_, {mean_[r], scale_[r]}, weight_.data(),
                       adds_, input_gradients + at);
        }
      });
}

void LayerNorm::backward_input(std::size_t size) {
  f32_ ? backward_input_as<float>(size) : backward_input_as<Bf16>(size);
}

}  // namespace evenstep::kernels::onednn
