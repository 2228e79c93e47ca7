#include "evenstep/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "evenstep/error.h"
#include "runtime/elementwise.h"
#include "runtime/multiversion.h"

namespace evenstep {
namespace {

struct Sgd {
  float rate, momentum, decay, scale;
};

EVENSTEP_MULTIVERSION void sgd(Sgd by, const float* __restrict gradients,
                               float* __restrict parameters, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    parameters[i] -= by.rate * (by.scale * gradients[i] + by.decay * parameters[i]);
}

EVENSTEP_MULTIVERSION void sgd_with_momentum(Sgd by, const float* __restrict gradients,
                                             float* __restrict velocity,
                                             float* __restrict parameters, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = by.scale * gradients[i] + by.decay * parameters[i];
    velocity[i] = by.momentum * velocity[i] + gradient;
    parameters[i] -= by.rate * velocity[i];
  }
}

EVENSTEP_MULTIVERSION void nesterov(Sgd by, const float* __restrict gradients,
                                    float* __restrict velocity, float* __restrict parameters,
                                    std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = by.scale * gradients[i] + by.decay * parameters[i];
    velocity[i] = by.momentum * velocity[i] + gradient;
    parameters[i] -= by.rate * (gradient + by.momentum * velocity[i]);
  }
}

struct AdamW {
  float keep, step_size, correction, epsilon, beta1, beta2, new1, new2, scale;
};

EVENSTEP_MULTIVERSION void adamw(AdamW by, const float* __restrict gradients,
                                 float* __restrict first, float* __restrict second,
                                 float* __restrict parameters, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = by.scale * gradients[i];
    first[i] = by.beta1 * first[i] + by.new1 * gradient;
    second[i] = by.beta2 * second[i] + by.new2 * (gradient * gradient);
    const float scaled = first[i] / (std::sqrt(second[i]) * by.correction + by.epsilon);
    parameters[i] = by.keep * parameters[i] - by.step_size * scaled;
  }
}

EVENSTEP_MULTIVERSION void lars(Sgd by, const float* __restrict gradients,
                                float* __restrict velocity, float* __restrict parameters,
                                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    velocity[i] =
        by.momentum * velocity[i] + by.rate * (by.scale * gradients[i] + by.decay * parameters[i]);
    parameters[i] -= velocity[i];
  }
}

double trust_ratio(double weight_norm, double gradient_norm, double decay, double trust) {
  if (weight_norm == 0 || gradient_norm == 0) return 1;
  return trust * weight_norm / (gradient_norm + decay * weight_norm);
}

void check_tensors(std::span<const ParameterTensor> tensors, std::int64_t parameters) {
  std::int64_t end = 0;
  for (const ParameterTensor& tensor : tensors) {
    if (tensor.first != end || tensor.count < 0)
      throw UsageError(
          fmt::format("a tensor has elements {} to {}, the ones before end at {}; list "
                      "all tensors in order",
                      tensor.first, tensor.first + tensor.count, end));
    end += tensor.count;
  }
  if (end != parameters)
    throw UsageError(
        fmt::format("the tensors have {} elements, there are {} parameters", end, parameters));
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
  check_tensors(tensors_, parameters);
}

void move_averages(std::span<float> averages, std::span<const float> latest, float rate,
                   float scale) {
  for (std::size_t i = 0; i < averages.size(); ++i)
    averages[i] += rate * (scale * latest[i] - averages[i]);
}

void Optimizer::step(std::span<float> parameters, std::span<const float> gradients,
                     double learning_rate, float scale) {
  if (adamw_) return step_adamw(parameters, gradients, learning_rate, scale);
  if (lars_) return step_lars(parameters, gradients, learning_rate, scale);
  const Sgd by{static_cast<float>(learning_rate), static_cast<float>(options_.momentum),
               static_cast<float>(options_.weight_decay), scale};
  if (first_.empty())
    sgd(by, gradients.data(), parameters.data(), parameters.size());
  else
    (options_.nesterov ? nesterov : sgd_with_momentum)(by, gradients.data(), first_.data(),
                                                       parameters.data(), parameters.size());
}

void Optimizer::step_adamw(std::span<float> parameters, std::span<const float> gradients,
                           double rate, float scale) {
  beta1_power_ *= options_.beta1;
  beta2_power_ *= options_.beta2;
  const auto kept = static_cast<float>(1 - rate * options_.weight_decay);
  AdamW by{.keep = 1,
           .step_size = static_cast<float>(rate / (1 - beta1_power_)),
           .correction = static_cast<float>(1 / std::sqrt(1 - beta2_power_)),
           .epsilon = static_cast<float>(options_.epsilon),
           .beta1 = static_cast<float>(options_.beta1),
           .beta2 = static_cast<float>(options_.beta2),
           .new1 = static_cast<float>(1 - options_.beta1),
           .new2 = static_cast<float>(1 - options_.beta2),
           .scale = scale};
  for (const ParameterTensor& tensor : tensors_) {
    const auto first = static_cast<std::size_t>(tensor.first);
    by.keep = tensor.is_weight ? kept : 1;
    adamw(by, gradients.data() + first, first_.data() + first, second_.data() + first,
          parameters.data() + first, static_cast<std::size_t>(tensor.count));
  }
}

void Optimizer::step_lars(std::span<float> parameters, std::span<const float> gradients,
                          double rate, float scale) {
  for (const ParameterTensor& tensor : tensors_) {
    const auto first = static_cast<std::size_t>(tensor.first);
    const auto count = static_cast<std::size_t>(tensor.count);
    const std::span weights = parameters.subspan(first, count);
    const std::span slopes = gradients.subspan(first, count);
    const double decay = tensor.is_weight ? options_.weight_decay : 0;
    const double ratio = tensor.is_weight ? trust_ratio(norm(weights), double{scale} * norm(slopes),
                                                        decay, options_.trust)
                                          : 1;
    const Sgd by{static_cast<float>(rate * ratio), static_cast<float>(options_.momentum),
                 static_cast<float>(decay), scale};
    lars(by, slopes.data(), first_.data() + first, weights.data(), count);
  }
}

double norm(std::span<const float> gradients) { return std::sqrt(sum_of_squares(gradients)); }

double clip_by_norm(std::span<float> gradients, double most) {
  const double before = norm(gradients);
  if (before > most) scale(gradients, static_cast<float>(most / before));
  return before;
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
