// Outside reference: the update rules as PyTorch documents them, in double precision; cosine from
// libm. The arithmetic itself must be basic operations only: tests/train/ disassembles it.
#include "evenstep/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "evenstep/error.h"
#include "runtime/elementwise.h"

using namespace evenstep;

namespace {

struct Problem {
  std::vector<float> parameters;
  std::vector<std::vector<float>> gradients;  // by step
};

Problem random_problem(int size, int steps) {
  std::mt19937 random(17);
  std::uniform_real_distribution<float> value(-1, 1);
  Problem problem;
  for (int i = 0; i < size; ++i) problem.parameters.push_back(value(random));
  problem.gradients.resize(static_cast<std::size_t>(steps));
  for (auto& gradient : problem.gradients)
    for (int i = 0; i < size; ++i) gradient.push_back(value(random));
  return problem;
}

std::vector<double> reference_sgd(const Problem& problem, double lr, const OptimizerOptions& o) {
  std::vector<double> p(problem.parameters.begin(), problem.parameters.end());
  std::vector<double> velocity(p.size());
  for (const auto& gradients : problem.gradients)
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradients[i] + o.weight_decay * p[i];
      velocity[i] = o.momentum * velocity[i] + g;
      p[i] -= lr * (o.nesterov ? g + o.momentum * velocity[i] : velocity[i]);
    }
  return p;
}

/// `decayed`: the only part that decay acts on.
std::vector<double> reference_adamw(const Problem& problem, double lr, const OptimizerOptions& o,
                                    ParameterTensor decayed) {
  std::vector<double> p(problem.parameters.begin(), problem.parameters.end());
  std::vector<double> m(p.size());
  std::vector<double> v(p.size());
  for (std::size_t t = 0; t < problem.gradients.size(); ++t)
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = problem.gradients[t][i];
      const double steps = static_cast<double>(t + 1);
      const auto place = static_cast<std::int64_t>(i) - decayed.first;
      if (place >= 0 && place < decayed.count) p[i] *= 1 - lr * o.weight_decay;
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      const double denominator = std::sqrt(v[i] / (1 - std::pow(o.beta2, steps))) + o.epsilon;
      p[i] -= lr * m[i] / (1 - std::pow(o.beta1, steps)) / denominator;
    }
  return p;
}

double norm(std::span<const double> values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

// Equations 5 and 6 and algorithm 1 of You et al., in double precision.
std::vector<double> reference_lars(const Problem& problem, double lr, const OptimizerOptions& o,
                                   const std::vector<ParameterTensor>& tensors) {
  std::vector<double> p(problem.parameters.begin(), problem.parameters.end());
  std::vector<double> velocity(p.size());
  for (const auto& step : problem.gradients) {
    const std::vector<double> g(step.begin(), step.end());
    for (const ParameterTensor& tensor : tensors) {
      const auto first = static_cast<std::size_t>(tensor.first);
      const auto count = static_cast<std::size_t>(tensor.count);
      const double w_norm = norm(std::span(p).subspan(first, count));
      const double g_norm = norm(std::span(g).subspan(first, count));
      const bool plain = !tensor.is_weight || w_norm == 0 || g_norm == 0;
      const double ratio = plain ? 1 : o.trust * w_norm / (g_norm + o.weight_decay * w_norm);
      for (std::size_t i = first; i < first + count; ++i) {
        const double decayed = tensor.is_weight ? g[i] + o.weight_decay * p[i] : g[i];
        velocity[i] = o.momentum * velocity[i] + lr * ratio * decayed;
        p[i] -= velocity[i];
      }
    }
  }
  return p;
}

void check_against(const std::vector<double>& expected, const Problem& problem, double lr,
                   const OptimizerOptions& options,
                   const std::vector<ParameterTensor>& tensors = {}) {
  std::vector<float> parameters = problem.parameters;
  Optimizer optimizer(options, static_cast<std::int64_t>(parameters.size()), tensors);
  for (const auto& gradient : problem.gradients) optimizer.step(parameters, gradient, lr);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    CHECK(parameters[i] == doctest::Approx(expected[i]).epsilon(2e-5));
}

}  // namespace

TEST_CASE("sgd follows its rule") {
  const Problem problem = random_problem(101, 20);
  for (double momentum : {0.0, 0.9})
    for (bool nesterov : {false, true})
      for (double decay : {0.0, 0.01}) {
        CAPTURE(momentum);
        CAPTURE(nesterov);
        CAPTURE(decay);
        const OptimizerOptions options{
            .name = "sgd", .momentum = momentum, .nesterov = nesterov, .weight_decay = decay};
        check_against(reference_sgd(problem, 0.05, options), problem, 0.05, options);
      }
}

TEST_CASE("adamw follows its rule") {
  const Problem problem = random_problem(101, 20);
  for (double decay : {0.0, 0.01}) {
    const OptimizerOptions options{.name = "adamw", .weight_decay = decay};
    check_against(reference_adamw(problem, 0.01, options, {0, 101}), problem, 0.01, options);
  }
}

TEST_CASE("adamw decays weights, not biases") {
  const Problem problem = random_problem(101, 20);
  const OptimizerOptions options{.name = "adamw", .weight_decay = 0.5};
  const std::vector<ParameterTensor> tensors = {{0, 30, false}, {30, 50}, {80, 21, false}};
  check_against(reference_adamw(problem, 0.01, options, tensors[1]), problem, 0.01, options,
                tensors);
}

TEST_CASE("lars follows its rule, tensor by tensor") {
  Problem problem = random_problem(9000, 20);
  // The fourth tensor starts at zero, the fifth never has a gradient.
  const std::vector<ParameterTensor> tensors = {
      {0, 8000}, {8000, 300}, {8300, 100, false}, {8400, 300}, {8700, 300}};
  std::fill_n(problem.parameters.begin() + 8400, 300, 0.0F);
  for (auto& gradient : problem.gradients) std::fill_n(gradient.begin() + 8700, 300, 0.0F);
  for (double momentum : {0.0, 0.9})
    for (double decay : {0.0, 0.01}) {
      const OptimizerOptions options{
          .name = "lars", .momentum = momentum, .weight_decay = decay, .trust = 0.02};
      check_against(reference_lars(problem, 0.5, options, tensors), problem, 0.5, options, tensors);
    }
  const OptimizerOptions options{.name = "lars"};
  check_against(reference_lars(problem, 3, options, {{0, 9000}}), problem, 3, options);
}

TEST_CASE("sums and a scale are the averages, to the last bit") {
  const Problem problem = random_problem(9001, 3);
  const float scale = 1.0F / 48;
  for (const OptimizerOptions& options :
       {OptimizerOptions{.momentum = 0}, OptimizerOptions{.weight_decay = 0.01},
        OptimizerOptions{.nesterov = true}, OptimizerOptions{.name = "adamw"},
        OptimizerOptions{.name = "lars"}}) {
    CAPTURE(options.name);
    std::vector<float> by_averages = problem.parameters;
    std::vector<float> by_sums = problem.parameters;
    Optimizer one(options, 9001);
    Optimizer other(options, 9001);
    for (const std::vector<float>& sums : problem.gradients) {
      std::vector<float> averages(sums.size());
      scaled_copy(sums, scale, averages);
      one.step(by_averages, averages, 0.05);
      other.step(by_sums, sums, 0.05, scale);
      if (options.name != "lars") CHECK(by_averages == by_sums);
      move_averages(by_averages, averages, 0.1F);
      move_averages(by_sums, sums, 0.1F, scale);
    }
    // The norm of sums, scaled, is not rounded as that of averages is.
    for (std::size_t i = 0; i < by_sums.size(); ++i)
      CHECK(by_sums[i] == doctest::Approx(by_averages[i]).epsilon(1e-5));
  }
}

TEST_CASE("cos_pi agrees with libm") {
  for (int i = 0; i <= 10000; ++i) {
    const double x = i / 10000.0;
    CHECK(std::abs(cos_pi(x) - std::cos(M_PI * x)) < 1e-15);
  }
  CHECK(cos_pi(0) == 1);
  CHECK(cos_pi(1) == -1);
}

TEST_CASE("schedules") {
  const ScheduleOptions cosine{
      .name = "cosine", .learning_rate = 0.2, .warmup_steps = 10, .total_steps = 110};
  CHECK(learning_rate(cosine, 0) == doctest::Approx(0.02));
  CHECK(learning_rate(cosine, 9) == doctest::Approx(0.2));
  CHECK(learning_rate(cosine, 10) == doctest::Approx(0.2));
  CHECK(learning_rate(cosine, 60) == doctest::Approx(0.1));
  CHECK(learning_rate(cosine, 110) == doctest::Approx(0));
  CHECK(learning_rate(cosine, 1000) == doctest::Approx(0));

  const ScheduleOptions step{.name = "step", .learning_rate = 1, .total_steps = 100};
  CHECK(learning_rate(step, 49) == doctest::Approx(1));
  CHECK(learning_rate(step, 50) == doctest::Approx(0.1));
  CHECK(learning_rate(step, 75) == doctest::Approx(0.01));

  const ScheduleOptions constant{.name = "constant", .learning_rate = 0.5, .warmup_steps = 4};
  CHECK(learning_rate(constant, 1) == doctest::Approx(0.25));
  CHECK(learning_rate(constant, 1 << 20) == doctest::Approx(0.5));
}

TEST_CASE("clipping bounds the norm and leaves small gradients alone") {
  std::vector<float> gradients(5000, 0.1F);
  const double norm = 0.1F * std::sqrt(5000.0);
  CHECK(clip_by_norm(gradients, 100) == doctest::Approx(norm));
  CHECK(gradients[0] == 0.1F);
  CHECK(clip_by_norm(gradients, 1) == doctest::Approx(norm));
  CHECK(std::sqrt(sum_of_squares(gradients)) == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("sum of squares over every shape of tree") {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> value(-1, 1);
  for (std::size_t size : {0, 1, 15, 16, 17, 4095, 4096, 4097, 8192, 12289, 100000}) {
    std::vector<float> values(size);
    double expected = 0;
    for (float& v : values) {
      v = value(random);
      expected += double{v} * v;
    }
    CHECK(sum_of_squares(values) == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("a changed bit changes the hash") {
  std::vector<float> values(1000, 1.5F);
  const auto before = hash_bits(values);
  values[617] = std::nextafter(1.5F, 2.0F);
  CHECK(hash_bits(values) != before);
}

TEST_CASE("unknown names are refused") {
  CHECK_THROWS_AS(Optimizer({.name = "adam"}, 1), UsageError);
  using Tensors = std::vector<ParameterTensor>;
  CHECK_NOTHROW(Optimizer({.name = "adamw"}, 5, Tensors{{0, 2}, {2, 3}}));
  for (const Tensors& tensors : {Tensors{{0, 2}, {3, 2}}, Tensors{{2, 3}, {0, 2}}, Tensors{{0, 4}},
                                 Tensors{{0, 6}}, Tensors{{0, 7}, {7, -2}}})
    CHECK_THROWS_AS(Optimizer({.name = "adamw"}, 5, tensors), UsageError);
  CHECK_THROWS_AS(learning_rate({.name = "linear"}, 0), UsageError);
}
