// Winograd against sums over every tap, in double: with vectors of both lengths on any processor,
// though networks take it only where it is fast.
#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/onednn/winograd.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr std::int64_t most_samples = 5;

/// Activations as Winograd has them, by plain indices; 0 outside the image.
class Image {
 public:
  Image(Context& context, const Winograd::Shape& shape, std::int64_t channels)
      : shape_(shape),
        channels_(channels),
        count_(most_samples * channels * shape.height * shape.width),
        memory_(context.plan.view(
            context.plan.new_region(),
            {{count_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a})) {}

  float* begin() const { return data<float>(memory_); }

  void fill(std::mt19937& random) const {
    std::normal_distribution<float> normal;
    std::generate_n(begin(), count_, [&] { return normal(random); });
  }

  double at(std::int64_t sample, std::int64_t channel, std::int64_t y, std::int64_t x) const {
    if (y < 0 || x < 0 || y >= shape_.height || x >= shape_.width) return 0;
    const std::int64_t block = sample * (channels_ / shape_.lanes) + channel / shape_.lanes;
    const std::int64_t pixel = (block * shape_.height + y) * shape_.width + x;
    return begin()[pixel * shape_.lanes + channel % shape_.lanes];
  }

 private:
  Winograd::Shape shape_;
  std::int64_t channels_, count_;
  dnnl::memory memory_;
};

/// A convolution of random weights and activations, and the sums that it should come to.
struct Case {
  Winograd::Shape shape;
  Context context{ChunkMenu(1), Dtype::f32};
  Winograd winograd{context, shape, Winograd::Passes::both};
  Image input{context, shape, shape.inputs};
  Image output{context, shape, shape.outputs};
  Image output_gradients{context, shape, shape.outputs};
  Image input_gradients{context, shape, shape.inputs};
  std::vector<float> weights =
      std::vector<float>(static_cast<std::size_t>(shape.outputs * shape.inputs * 9));
  std::vector<float> biases = std::vector<float>(static_cast<std::size_t>(shape.outputs));

  Case(const Winograd::Shape& its_shape, std::mt19937& random) : shape(its_shape) {
    context.plan.commit();
    refill(random);
    std::normal_distribution<float> normal;
    for (float& weight : weights) weight = normal(random);
    for (float& bias : biases) bias = normal(random);
    winograd.load(weights.data());
  }

  void refill(std::mt19937& random) const {
    for (const Image* image : {&input, &output, &output_gradients, &input_gradients})
      image->fill(random);
  }

  double weight(std::int64_t out, std::int64_t in, std::int64_t y, std::int64_t x) const {
    return weights[static_cast<std::size_t>(((out * shape.inputs + in) * 3 + y) * 3 + x)];
  }

  template <typename Visit>
  static void for_each_tap(Visit visit) {
    for (std::int64_t y = 0; y < 3; ++y)
      for (std::int64_t x = 0; x < 3; ++x) visit(y, x);
  }

  template <typename Visit>
  void for_each_pixel(Visit visit) const {
    for (std::int64_t y = 0; y < shape.height; ++y)
      for (std::int64_t x = 0; x < shape.width; ++x) visit(y, x);
  }

  double worst_output(std::int64_t samples) const {
    double worst = 0;
    for (std::int64_t n = 0; n < samples; ++n)
      for (std::int64_t out = 0; out < shape.outputs; ++out)
        for_each_pixel([&](std::int64_t y, std::int64_t x) {
          double sum = biases[static_cast<std::size_t>(out)];
          for (std::int64_t in = 0; in < shape.inputs; ++in)
            for_each_tap([&](std::int64_t v, std::int64_t u) {
              sum += weight(out, in, v, u) * input.at(n, in, y + v - 1, x + u - 1);
            });
          worst = std::max(worst, std::abs(sum - output.at(n, out, y, x)));
        });
    return worst;
  }

  double worst_input_gradient(std::int64_t samples) const {
    double worst = 0;
    for (std::int64_t n = 0; n < samples; ++n)
      for (std::int64_t in = 0; in < shape.inputs; ++in)
        for_each_pixel([&](std::int64_t y, std::int64_t x) {
          double sum = 0;
          for (std::int64_t out = 0; out < shape.outputs; ++out)
            for_each_tap([&](std::int64_t v, std::int64_t u) {
              sum += weight(out, in, v, u) * output_gradients.at(n, out, y + 1 - v, x + 1 - u);
            });
          worst = std::max(worst, std::abs(sum - input_gradients.at(n, in, y, x)));
        });
    return worst;
  }

  /// Adds the weights' gradients of so many samples, in the order of the weights.
  void add_weight_gradients(std::int64_t samples, std::vector<double>& sums) const {
    auto sum = sums.begin();
    for (std::int64_t out = 0; out < shape.outputs; ++out)
      for (std::int64_t in = 0; in < shape.inputs; ++in)
        for_each_tap([&](std::int64_t v, std::int64_t u) {
          for (std::int64_t n = 0; n < samples; ++n)
            for_each_pixel([&](std::int64_t y, std::int64_t x) {
              *sum += output_gradients.at(n, out, y, x) * input.at(n, in, y + v - 1, x + u - 1);
            });
          ++sum;
        });
  }
};

/// Random, but for the vectors; sides from 1 to 9 pixels.
Winograd::Shape random_shape(std::int64_t lanes, std::mt19937& random) {
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  return {lanes, lanes * up_to(4), lanes * up_to(4), up_to(9), up_to(9)};
}

double worst_difference(const std::vector<double>& expected, const std::vector<float>& values) {
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs(expected[i] - values[i]));
  return worst;
}

// Sums of up to some thousand products: their rounding comes to some 1e-5.
constexpr double tolerance = 1e-3;

TEST_CASE("forward and backward are those of the convolution") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (std::int64_t lanes : {8, 16}) {
    for (int i = 0; i < 12; ++i) {
      Case some(random_shape(lanes, random), random);
      CAPTURE(lanes);
      CAPTURE(some.shape.inputs);
      CAPTURE(some.shape.outputs);
      CAPTURE(some.shape.height);
      CAPTURE(some.shape.width);
      for (std::int64_t samples : {std::int64_t{1}, most_samples}) {
        some.winograd.forward(some.input.begin(), some.biases.data(), samples, some.output.begin());
        CHECK(some.worst_output(samples) < tolerance);
        some.winograd.backward_input(some.output_gradients.begin(), samples,
                                     some.input_gradients.begin());
        CHECK(some.worst_input_gradient(samples) < tolerance);
      }
    }
  }
}

TEST_CASE("weight gradients are summed over a share's chunks, and a new share begins anew") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (std::int64_t lanes : {8, 16}) {
    Case some(random_shape(lanes, random), random);
    CAPTURE(lanes);
    CAPTURE(some.shape.inputs);
    CAPTURE(some.shape.outputs);
    CAPTURE(some.shape.height);
    CAPTURE(some.shape.width);
    std::vector<float> gradients(some.weights.size());
    for (int chunks : {1, 3}) {
      std::vector<double> expected(gradients.size());
      for (int chunk = 0; chunk < chunks; ++chunk) {
        some.refill(random);
        const std::int64_t samples = chunk == 1 ? 1 : most_samples;
        some.add_weight_gradients(samples, expected);
        const bool last = chunk + 1 == chunks;
        some.winograd.backward_weights(some.input.begin(), some.output_gradients.begin(), samples,
                                       {chunk == 0, last}, last ? gradients.data() : nullptr);
      }
      CHECK(worst_difference(expected, gradients) < tolerance);
    }
  }
}

TEST_CASE("an image of several strips, not all of one size, on one thread and several") {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(3);
  std::mt19937 random(1);
  // 8 channels, 20 columns of tiles: 65,536 / (2 x 16 x 8 x 20) = 12 of the 20 rows of tiles.
  const std::int64_t samples = 2;
  Case wide({8, 8, 8, 39, 40}, random);
  std::vector<double> twice(wide.weights.size());
  wide.add_weight_gradients(samples, twice);
  wide.add_weight_gradients(samples, twice);
  // Four threads are more than there were at construction.
  for (int team : {3, 1, 4}) {
    omp_set_num_threads(team);
    CAPTURE(team);
    wide.winograd.forward(wide.input.begin(), nullptr, samples, wide.output.begin());
    std::fill(wide.biases.begin(), wide.biases.end(), 0.0f);
    CHECK(wide.worst_output(samples) < tolerance);
    wide.winograd.backward_input(wide.output_gradients.begin(), samples,
                                 wide.input_gradients.begin());
    CHECK(wide.worst_input_gradient(samples) < tolerance);
    std::vector<float> gradients(wide.weights.size());
    wide.winograd.backward_weights(wide.input.begin(), wide.output_gradients.begin(), samples,
                                   {true, false}, nullptr);
    wide.winograd.backward_weights(wide.input.begin(), wide.output_gradients.begin(), samples,
                                   {false, true}, gradients.data());
    CHECK(worst_difference(twice, gradients) < tolerance);
    wide.output.fill(random);
    wide.input_gradients.fill(random);
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace evenstep::kernels::onednn
