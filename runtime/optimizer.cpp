#include "evenstep/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evenstep/error.h"
#include "runtime/elementwise.h"

namespace evenstep {

Optimizer::Optimizer(const OptimizerOptions& options, std::int64_t parameters)
    : options_(options), adamw_(options.name == "adamw") {
  if (!adamw_ && options.name != "sgd")
    throw UsageError(fmt::format("unknown optimizer '{}'; choose sgd or adamw", options.name));
  const auto size = static_cast<std::size_t>(parameters);
  if (adamw_ || options.momentum != 0) first_.resize(size);
  if (adamw_) second_.resize(size);
}

void Optimizer::step(std::span<float> parameters, std::span<const float> gradients,
                     double learning_rate) {
  if (adamw_)
    step_adamw(parameters, gradients, learning_rate);
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
