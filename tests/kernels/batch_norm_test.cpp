// What batch norm and dropout do beyond gradients: running averages, evaluation, groups and keys.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/layers.h"
#include "tests/kernels/harness.h"

namespace evenstep::kernels::test {
namespace {

using enum LayerKind;

constexpr int classes = 4;
constexpr SampleShape image{2, 5, 4};

const std::vector<LayerSpec> normalised = {
    {convolution, "a", 20, square(3, 1, 1), false}, {batch_norm, "n"}, {relu, "r"}, {linear, "fc"}};

std::unique_ptr<Network> build(const std::vector<LayerSpec>& layers, int largest_chunk,
                               Dtype dtype = Dtype::f32, std::uint64_t seed = 1) {
  NetworkOptions options;
  options.input = image;
  options.classes = classes;
  options.largest_chunk = largest_chunk;
  options.dtype = dtype;
  options.seed = seed;
  return make_network(layers, options);
}

std::vector<float> sums_of(Network& network, const std::vector<int>& chunks) {
  const std::vector<float> parameters = formula_parameters(network);
  network.load_parameters(parameters);
  std::vector<float> sums(parameters.size());
  run_chunks(network, chunks, classes, sums);
  return sums;
}

void check_close(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4).scale(0.1));
  }
}

TEST_CASE("a share's gradients and averages do not depend on the size of its chunks") {
  const auto small = build(normalised, 16);
  const auto large = build(normalised, 64);
  CHECK(small->granule() == 16);
  CHECK(large->granule() == 16);
  check_close(sums_of(*small, {4, 16, 16, 16, 16}), sums_of(*large, {4, 64}));
  check_close(sums_of(*small, {16, 16, 16, 16}), sums_of(*large, {32, 16, 16}));
}

TEST_CASE("by the averages of a group of its own, a chunk is evaluated as it was trained") {
  for (Dtype dtype : dtypes()) {
    const auto network = build(normalised, 16, dtype);
    const std::vector<float> sums = sums_of(*network, {16});
    std::vector<float> parameters = formula_parameters(*network);
    const auto trained = static_cast<std::size_t>(network->trained_count());
    REQUIRE(parameters.size() == trained + 40);
    const float values = 16 * 5 * 4;
    for (std::size_t i = trained; i < trained + 20; ++i) parameters[i] = sums[i] / 16;
    // The sums hold unbiased variances, as PyTorch's averages do; a group is normalised by its own.
    for (std::size_t i = trained + 20; i < trained + 40; ++i)
      parameters[i] = sums[i] / 16 * (values - 1) / values;
    network->load_parameters(parameters);
    stage(*network, 0, 16, classes);
    const double trained_loss = network->forward(16).loss;
    CHECK(network->evaluate(16).loss == doctest::Approx(trained_loss).epsilon(1e-5));
    // One by one, too: the averages do not care what else is in the chunk.
    double sum = 0;
    for (int i = 0; i < 16; ++i) {
      stage(*network, i, 1, classes);
      sum += network->evaluate(1).loss;
    }
    CHECK(sum == doctest::Approx(trained_loss).epsilon(dtype == Dtype::f32 ? 1e-5 : 1e-3));
    CHECK_THROWS_AS(network->backward(1, {}, parameters, nullptr), std::logic_error);
  }
}

const std::vector<LayerSpec> dropping = {{convolution, "a", 20, square(3, 1, 1)},
                                         {.kind = dropout, .name = "d", .rate = 0.25},
                                         {linear, "b", 50},
                                         {.kind = dropout, .name = "e", .rate = 0.5},
                                         {linear, "fc"}};

TEST_CASE("dropout is keyed by the sample, whatever chunk it is in") {
  const auto network = build(dropping, 16);
  const std::vector<float> whole = sums_of(*network, {16});
  check_close(sums_of(*network, {1, 1, 2, 4, 8}), whole);
  CHECK(sums_of(*build(dropping, 16, Dtype::f32, 2), {16}) != whole);
}

/// The identity of a few numbers behind a dropout: the share of those that are gone.
TEST_CASE("dropout drops its share, scales the rest, and nothing in evaluation") {
  const std::vector<LayerSpec> layers = {{.kind = dropout, .name = "d", .rate = 0.25},
                                         {linear, "fc"}};
  NetworkOptions options;
  options.input = {1, 100, 100};
  options.classes = 2;
  options.largest_chunk = 1;
  const auto network = make_network(layers, options);
  std::vector<float> parameters(static_cast<std::size_t>(network->parameter_count()));
  network->load_parameters(parameters);
  std::ranges::fill(network->images(), 1.0F);
  network->labels()[0] = 0;
  std::vector<float> gradients(parameters.size());
  network->forward(1);
  network->backward(1, {}, gradients, nullptr);
  // With equal outputs, a weight's gradient is -input / 2.
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    if (gradients[i] == 0) ++dropped;
    if (gradients[i] != 0) CHECK(gradients[i] == doctest::Approx(-0.5 / 0.75));
  }
  CHECK(dropped > 2500 - 5 * 44);  // five standard deviations
  CHECK(dropped < 2500 + 5 * 44);
  std::ranges::fill(parameters, 1.0F / 64);
  std::fill_n(parameters.begin() + 10000, 10000, 0.0F);
  network->load_parameters(parameters);
  CHECK(network->evaluate(1).loss == doctest::Approx(0.0).scale(1));  // 10000/64 ahead
}

}  // namespace
}  // namespace evenstep::kernels::test
