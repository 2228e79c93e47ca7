// The linear SVM against its formula in double precision, and against the optimum that it has.
#include "kernels/svm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace evenstep::kernels::test {
namespace {

struct Problem {
  std::vector<std::uint64_t> starts{0};
  std::vector<SparseEntry> entries;
  std::vector<std::int8_t> labels;
  std::int64_t columns = 50;

  SparseRows rows() const { return {columns, {-1, 1}, starts, entries, labels}; }
};

Problem random_problem(int rows, std::mt19937& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  Problem problem;
  for (int r = 0; r < rows; ++r) {
    for (std::uint32_t c = 0; c < 50; ++c)
      if (random() % 5 == 0) problem.entries.push_back({c, value(random)});
    problem.starts.push_back(problem.entries.size());
    problem.labels.push_back(random() % 2 == 0 ? 1 : -1);
  }
  return problem;
}

struct Outcome {
  double loss = 0;
  std::int64_t correct = 0;
  std::vector<double> gradients;
};

Outcome by_formula(const SparseRows& rows, const std::vector<float>& w, double constant) {
  Outcome outcome;
  outcome.gradients.resize(w.size());
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    const double y = rows.labels[static_cast<std::size_t>(r)];
    double sum = constant * w.back();
    for (const SparseEntry& e : rows.row(r)) sum += static_cast<double>(w[e.column]) * e.value;
    outcome.loss += std::max(0.0, 1 - y * sum);
    outcome.correct += y * sum > 0 ? 1 : 0;
    if (y * sum >= 1) continue;
    for (const SparseEntry& e : rows.row(r)) outcome.gradients[e.column] -= y * e.value;
    outcome.gradients.back() -= y * constant;
  }
  return outcome;
}

Outcome by_model(LinearSvm& svm, const SparseRows& rows, std::vector<float>& gradients) {
  Outcome outcome;
  std::int64_t done = 0;
  std::int64_t reached = 0;
  const GradientReady ready = [&](std::int64_t first, std::int64_t count) {
    CHECK(first == reached);
    reached += count;
  };
  svm.menu().for_each_chunk(rows.rows(), [&](int size) {
    for (int i = 0; i < size; ++i) svm.stage(i, rows, done + i);
    const LossSums sums = svm.forward(size);
    outcome.loss += sums.loss;
    outcome.correct += sums.correct;
    svm.backward(size, {done == 0, done + size == rows.rows()}, gradients, &ready);
    done += size;
  });
  CHECK(reached == svm.parameter_count());
  outcome.gradients.assign(gradients.begin(), gradients.end());
  return outcome;
}

TEST_CASE("loss, gradients and correct answers are those of the formula") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> value(-1, 1);
  for (const float constant : {0.0F, 1.0F, 2.5F})
    for (int count : {1, 3, 256, 1000}) {
      CAPTURE(count);
      const Problem problem = random_problem(count, random);
      std::vector<float> weights(51);
      for (float& w : weights) w = value(random);
      LinearSvm svm(50, constant);
      REQUIRE(svm.parameter_count() == 51);
      svm.load_parameters(weights);
      std::vector<float> gradients(51, std::nanf(""));
      const Outcome expected = by_formula(problem.rows(), weights, constant);
      const Outcome got = by_model(svm, problem.rows(), gradients);
      CHECK(got.loss == doctest::Approx(expected.loss).epsilon(1e-6));
      CHECK(got.correct == expected.correct);
      for (std::size_t i = 0; i < weights.size(); ++i)
        CHECK(std::abs(got.gradients[i] - expected.gradients[i]) <= 1e-4);
    }
}

TEST_CASE("a weight that is not finite shows in the loss") {
  std::mt19937 random(6);
  const Problem problem = random_problem(4, random);
  std::vector<float> weights(51, std::nanf(""));
  std::vector<float> gradients(51);
  LinearSvm svm(50, 1);
  svm.load_parameters(weights);
  CHECK(std::isnan(by_model(svm, problem.rows(), gradients).loss));
}

}  // namespace
}  // namespace evenstep::kernels::test
