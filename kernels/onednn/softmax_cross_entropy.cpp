#include "kernels/onednn/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {
namespace {

/// One sample's loss; `gradient` becomes softmax(logits) - onehot(label). NaN logits give NaN.
double sample_loss(std::span<const float> logits, std::size_t label, std::span<float> gradient) {
  // The largest is subtracted first, so that no exponential overflows and one of them is 1.
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    gradient[c] = std::exp(logits[c] - largest);
    sum += static_cast<double>(gradient[c]);
  }
  const auto scale = static_cast<float>(1 / sum);
  for (float& g : gradient) g *= scale;
  gradient[label] -= 1;
  return std::log(sum) + (static_cast<double>(largest) - static_cast<double>(logits[label]));
}

/// Adds what a target spread over all classes costs more than the label alone.
double smooth(std::span<const float> logits, std::size_t label, double smoothing,
              std::span<float> gradient) {
  double sum = 0;
  for (float logit : logits) sum += static_cast<double>(logit);
  const auto part = static_cast<float>(smoothing / static_cast<double>(logits.size()));
  for (float& g : gradient) g -= part;
  gradient[label] += static_cast<float>(smoothing);
  const double mean = sum / static_cast<double>(logits.size());
  return smoothing * (static_cast<double>(logits[label]) - mean);
}

/// The first of the largest logits is the network's answer, as argmax has it.
bool is_correct(std::span<const float> logits, std::size_t label, double loss) {
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  return static_cast<std::size_t>(best) == label && !std::isnan(loss);
}

}  // namespace

SoftmaxCrossEntropy::SoftmaxCrossEntropy(const Context& context, const Tensor& logits,
                                         double smoothing)
    : logits_(logits),
      classes_(logits.shape.elements()),
      f32_(context.dtype == Dtype::f32),
      smoothing_(smoothing),
      gradients_(static_cast<std::size_t>(context.menu.largest() * classes_)) {}

LossSums SoftmaxCrossEntropy::forward(std::size_t size, std::span<const std::int32_t> labels) {
  const auto classes = static_cast<std::size_t>(classes_);
  const float* logits = data<float>(logits_.values[size]);
  LossSums sums;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    if (label >= classes) {
      throw std::out_of_range(fmt::format(
          "label {} of sample {} of a chunk: the network has {} classes", labels[i], i, classes_));
    }
    const std::span row(logits + i * classes, classes);
    const std::span gradient = std::span(gradients_).subspan(i * classes, classes);
    double loss = sample_loss(row, label, gradient);
    if (smoothing_ > 0) loss += smooth(row, label, smoothing_, gradient);
    sums.loss += loss;
    sums.correct += is_correct(row, label, loss) ? 1 : 0;
  }
  return sums;
}

void SoftmaxCrossEntropy::backward(std::size_t size) {
  const dnnl::memory& to = logits_.gradients[size];
  const std::int64_t count = logits_.counts[size];
  if (f32_) {
    std::copy_n(gradients_.data(), count, data<float>(to));
  } else {
    loops::to_bf16(gradients_.data(), data<loops::Bf16>(to), count);
  }
}

}  // namespace evenstep::kernels::onednn
