// A smoothed target is a weighted mean of labels, so loss and gradients are the weighted means of
// what the same samples give under each label.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/network.h"
#include "tests/kernels/harness.h"

namespace evenstep::kernels::test {
namespace {

constexpr int classes = 4;
constexpr int samples = 8;
constexpr double smoothing = 0.3;

struct Outcome {
  LossSums sums;
  std::vector<float> gradients;
};

LoadedNetwork make(double label_smoothing, Dtype dtype) {
  return load_formula_parameters(make_network({.model = "mlp",
                                               .dtype = dtype,
                                               .input = {1, 6, 5},
                                               .classes = classes,
                                               .label_smoothing = label_smoothing,
                                               .largest_chunk = samples}));
}

/// Each label moved on by `shift` classes.
Outcome run(Network& network, int shift) {
  stage(network, 0, samples, classes);
  for (auto& label : network.labels()) label = (label + shift) % classes;
  Outcome outcome{network.forward(samples),
                  std::vector<float>(static_cast<std::size_t>(network.parameter_count()))};
  network.backward(samples, {}, outcome.gradients, nullptr);
  return outcome;
}

TEST_CASE("label smoothing is a mean over labels") {
  for (Dtype dtype : dtypes()) {
    CAPTURE(static_cast<int>(dtype));
    const Outcome smoothed = run(*make(smoothing, dtype), 0);
    const auto plain = make(0, dtype);
    double loss = 0;
    std::vector<double> expected(smoothed.gradients.size());
    for (int shift = 0; shift < classes; ++shift) {
      const Outcome one = run(*plain, shift);
      const double part = smoothing / classes + (shift == 0 ? 1 - smoothing : 0);
      loss += part * one.sums.loss;
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += part * one.gradients[i];
      if (shift == 0) CHECK(one.sums.correct == smoothed.sums.correct);
    }
    CHECK(smoothed.sums.loss == doctest::Approx(loss).epsilon(1e-6));
    double worst = 0;
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, std::abs(smoothed.gradients[i] - expected[i]));
      largest = std::max(largest, std::abs(expected[i]));
    }
    CHECK(worst <= (dtype == Dtype::f32 ? 1e-6 : 2e-2) * largest);
  }
}

}  // namespace
}  // namespace evenstep::kernels::test
