#include "evenstep/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "evenstep/error.h"
#include "runtime/elementwise.h"

namespace evenstep {
namespace {

double trust_ratio(std::span<const float> weights, std::span<const float> gradients, double decay,
                   double trust) {
  const double weight_norm = std::sqrt(sum_of_squares(weights));
  const double gradient_norm = std::sqrt(sum_of_squares(gradients));
  if (weight_norm == 0 || gradient_norm == 0) return 1;
  return trust * weight_norm / (gradient_norm + decay * weight_norm);
}

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, std::int64_t parameters,
                     std::vector<ParameterTensor> tensors)
    : options_(options),
      adamw_(options.name == "adamw"),
      lars_(options.name == "lars"),
      tensors_(std::move(tensors)) {
  if (!adamw_ && !lars_ && options.name != "sgd")
    throw UsageError(
        fmt::format("unknown optimizer '{}'; choose sgd, adamw or lars", options.name));
  const auto size = static_cast<std::size_t>(parameters);
  if (adamw_ || lars_ || options.momentum != 0) first_.resize(size);
  if (adamw_) second_.resize(size);
  if (tensors_.empty()) tensors_.push_back({.first = 0, .count = parameters});
}

void move_averages(std::span<float> averages, std::span<const float> latest, float rate) {
  for (std::size_t i = 0; i < averages.size(); ++i) averages[i] += rate * (latest[i] - averages[i]);
}

void Optimizer::step(std::span<float> parameters, std::span<const float> gradients,
                     double learning_rate) {
  if (adamw_)
    step_adamw(parameters, gradients, learning_rate);
  else if (lars_)
    step_lars(parameters, gradients, learning_rate);
  else
    step_sgd(parameters, gradients, static_cast<float>(learning_rate));
}

void Optimizer::step_sgd(std::span<float> parameters, std::span<const float> gradients,
                         float rate) {
  const auto decay = static_cast<float>(options_.weight_decay);
  const auto momentum = static_cast<float>(options_.momentum);
  if (first_.empty()) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i] -= rate * (gradients[i] + decay * parameters[i]);
    return;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float gradient = gradients[i] + decay * parameters[i];
    first_[i] = momentum * first_[i] + gradient;
    parameters[i] -= rate * (options_.nesterov ? gradient + momentum * first_[i] : first_[i]);
  }
}

void Optimizer::step_adamw(std::span<float> parameters, std::span<const float> gradients,
                           double rate) {
  beta1_power_ *= options_.beta1;
  beta2_power_ *= options_.beta2;
  const auto keep = static_cast<float>(1 - rate * options_.weight_decay);
  const auto step_size = static_cast<float>(rate / (1 - beta1_power_));
  const auto correction = static_cast<float>(1 / std::sqrt(1 - beta2_power_));
  const auto epsilon = static_cast<float>(options_.epsilon);
  const auto beta1 = static_cast<float>(options_.beta1);
  const auto beta2 = static_cast<float>(options_.beta2);
  const auto new1 = static_cast<float>(1 - options_.beta1);
  const auto new2 = static_cast<float>(1 - options_.beta2);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float gradient = gradients[i];
    first_[i] = beta1 * first_[i] + new1 * gradient;
    second_[i] = beta2 * second_[i] + new2 * (gradient * gradient);
    const float scaled = first_[i] / (std::sqrt(second_[i]) * correction + epsilon);
    parameters[i] = keep * parameters[i] - step_size * scaled;
  }
}

void Optimizer::step_lars(std::span<float> parameters, std::span<const float> gradients,
                          double rate) {
  const auto momentum = static_cast<float>(options_.momentum);
  for (const ParameterTensor& tensor : tensors_) {
    const auto first = static_cast<std::size_t>(tensor.first);
    const auto count = static_cast<std::size_t>(tensor.count);
    const std::span weights = parameters.subspan(first, count);
    const std::span slopes = gradients.subspan(first, count);
    const std::span velocity = std::span(first_).subspan(first, count);
    const double decay = tensor.scaled ? options_.weight_decay : 0;
    const double ratio = tensor.scaled ? trust_ratio(weights, slopes, decay, options_.trust) : 1;
    const auto local_rate = static_cast<float>(rate * ratio);
    const auto local_decay = static_cast<float>(decay);
    for (std::size_t i = 0; i < count; ++i) {
      velocity[i] = momentum * velocity[i] + local_rate * (slopes[i] + local_decay * weights[i]);
      weights[i] -= velocity[i];
    }
  }
}

double clip_by_norm(std::span<float> gradients, double most) {
  const double norm = std::sqrt(sum_of_squares(gradients));
  if (norm > most) scale(gradients, static_cast<float>(most / norm));
  return norm;
}

// Taylor series: around 0 for the first quarter, by symmetry and sine around 1/2 for the rest.
double cos_pi(double x) {
  if (x > 0.5) return -cos_pi(1 - x);
  constexpr double pi = 3.14159265358979323846;
  const bool sine = x > 0.25;
  const double angle = pi * (sine ? 0.5 - x : x);
  const double square = angle * angle;
  double sum = 0;
  for (int k = 12; k >= 1; --k) {
    const int n = 2 * k + (sine ? 1 : 0);
    sum = (1 - sum) * square / (n * (n - 1));
  }
  return (1 - sum) * (sine ? angle : 1);
}

double learning_rate(const ScheduleOptions& options, std::int64_t step) {
  const std::int64_t warmup = options.warmup_steps;
  if (options.name != "constant" && options.name != "cosine" && options.name != "step")
    throw UsageError(
        fmt::format("unknown schedule '{}'; choose constant, cosine or step", options.name));
  if (step < warmup)
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (options.name == "constant") return options.learning_rate;
  const double done = static_cast<double>(step - warmup) /
                      static_cast<double>(std::max<std::int64_t>(1, options.total_steps - warmup));
  if (options.name == "cosine")
    return options.learning_rate * 0.5 * (1 + cos_pi(std::min(1.0, done)));
  const double fall = done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01;
  return options.learning_rate * fall;
}

}  // namespace evenstep
