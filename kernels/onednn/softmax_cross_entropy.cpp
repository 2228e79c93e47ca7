#include "kernels/onednn/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/onednn/exponential.h"
#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr std::int64_t grain = 2048;  // exponentials worth a thread

/// Values become exp(value - largest); returns their sum.
EVENSTEP_MULTIVERSION double exponentials(float* values, std::int64_t count, float largest) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = exponential(values[i] - largest);
    sum += static_cast<double>(values[i]);
  }
  return sum;
}

EVENSTEP_MULTIVERSION float largest_of(const float* values, std::int64_t count) {
  float largest = values[0];
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, values[i]);
  return largest;
}

EVENSTEP_MULTIVERSION void scale_and_shift(float* values, std::int64_t count, float scale,
                                           float shift) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] * scale + shift;
}

double mean_of(std::span<const float> values) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

/// One target's loss; the logits become softmax(logits) - (1 - smoothing) onehot(label) -
/// smoothing / classes. NaN logits give NaN. The first of the largest logits is the network's
/// answer, as argmax has it.
LossSums target_loss(std::span<float> logits, std::size_t label, double smoothing) {
  const auto count = static_cast<std::int64_t>(logits.size());
  // The largest is subtracted first, so that no exponential overflows and one of them is 1.
  const float largest = largest_of(logits.data(), count);
  const auto of_label = static_cast<double>(logits[label]);
  const auto best = logits.first(label + 1);
  const bool correct = std::ranges::find(best, largest) - best.begin() == std::ptrdiff_t(label);
  double loss = static_cast<double>(largest) - of_label;
  if (smoothing > 0) loss += smoothing * (of_label - mean_of(logits));
  const double sum = exponentials(logits.data(), count, largest);
  loss += std::log(sum);
  const double part = smoothing / static_cast<double>(count);
  scale_and_shift(logits.data(), count, static_cast<float>(1 / sum), static_cast<float>(-part));
  logits[label] -= static_cast<float>(1 - smoothing);
  return {loss, correct && !std::isnan(loss) ? 1 : 0};
}

}  // namespace

SoftmaxCrossEntropy::SoftmaxCrossEntropy(Context& context, const Tensor& logits, double smoothing)
    : logits_(logits),
      classes_(logits.shape.channels),
      f32_(context.dtype == Dtype::f32),
      smoothing_(smoothing),
      of_row_(static_cast<std::size_t>(logits.counts.back() / classes_)) {
  if (f32_) context.plan.share(logits.values_region, logits.gradients_region);
}

LossSums SoftmaxCrossEntropy::forward(std::size_t size, std::span<const std::int32_t> labels) {
  const auto classes = static_cast<std::size_t>(classes_);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (static_cast<std::size_t>(labels[i]) >= classes) {
      throw std::out_of_range(fmt::format(
          "label {} of target {} of a chunk: the network has {} classes", labels[i], i, classes_));
    }
  }
  float* logits = data<float>(logits_.values[size]);
  const auto count = static_cast<std::int64_t>(labels.size());
  loops::split_over_threads(
      count, grain / classes_ + 1, [&](std::int64_t first, std::int64_t last) {
        for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
          of_row_[i] = target_loss({logits + i * classes, classes},
                                   static_cast<std::size_t>(labels[i]), smoothing_);
        }
      });
  LossSums sums;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    sums.loss += of_row_[i].loss;
    sums.correct += of_row_[i].correct;
  }
  return sums;
}

void SoftmaxCrossEntropy::backward(std::size_t size) {
  if (f32_) return;  // the gradients have the logits' place
  loops::to_bf16(data<float>(logits_.values[size]), data<loops::Bf16>(logits_.gradients[size]),
                 logits_.counts[size]);
}

}  // namespace evenstep::kernels::onednn
