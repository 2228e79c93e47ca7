// Batch norm's sums in fp32 over as many values as ImageNet's images have, against doubles.
#include "kernels/onednn/channel_loops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace evenstep::kernels::onednn::channel_loops {
namespace {

constexpr int lanes = 16;

std::vector<float> draw(std::int64_t pixels, float mean, bool relu) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(mean, 1);
  std::vector<float> values(static_cast<std::size_t>(pixels * lanes));
  for (float& value : values) value = relu ? std::max(0.0F, normal(random)) : normal(random);
  return values;
}

struct Exact {
  double sum = 0;
  double products = 0;
};

/// The sum of a, and of a (b - mean), over the pixels of a lane.
Exact sums_of(const std::vector<float>& a, const std::vector<float>& b, double mean, int lane) {
  Exact exact;
  for (std::size_t i = static_cast<std::size_t>(lane); i < a.size(); i += lanes) {
    exact.sum += a[i];
    exact.products += a[i] * (b[i] - mean);
  }
  return exact;
}

// Half of the values are zero behind a ReLU: to add the same number over and over to a sum rounds
// in the same direction over and over.
TEST_CASE("sums over large images lose no digits") {
  constexpr std::int64_t samples = 16;
  for (const std::int64_t pixels : {49, 28 * 28, 112 * 112}) {
    for (const float offset : {0.0F, 2.0F, 100.0F}) {
      CAPTURE(pixels);
      CAPTURE(offset);
      const bool relu = offset == 0;
      const Column column{samples, pixels * lanes, pixels, lanes, lanes};
      const std::vector<float> x = draw(samples * pixels, offset, relu);
      std::vector<float> gradients = draw(samples * pixels, 0.1F, false);
      float mean[lanes];
      float variance[lanes];
      float sums[lanes];
      float products[lanes];
      statistics(column, x.data(), mean, variance);
      gradient_sums(column, x.data(), nullptr, gradients.data(), mean, sums, products);
      const auto count = static_cast<double>(samples * pixels);
      for (int lane = 0; lane < lanes; ++lane) {
        const double true_mean = sums_of(x, x, 0, lane).sum / count;
        const double true_variance = sums_of(x, x, true_mean, lane).products / count;
        CHECK(mean[lane] == doctest::Approx(true_mean).epsilon(1e-6).scale(1));
        CHECK(variance[lane] == doctest::Approx(true_variance).epsilon(1e-5));
        const Exact exact = sums_of(gradients, x, mean[lane], lane);
        CHECK(std::abs(sums[lane] - exact.sum) < 1e-6 * count);
        CHECK(std::abs(products[lane] - exact.products) < 1e-6 * count);
      }
    }
  }
}

}  // namespace
}  // namespace evenstep::kernels::onednn::channel_loops
