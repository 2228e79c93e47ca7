// Statistics and normalisation, on made-up pixels and on the real Fashion-MNIST.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "kernels/data/idx.h"

namespace evenstep::kernels {
namespace {

namespace fs = std::filesystem;

TEST_CASE("statistics and normalisation") {
  Dataset data{{1, 2, 2}, 10, {0, 255, 255, 0, 51, 51, 51, 51}, {1, 2}};
  const PixelStatistics statistics = pixel_statistics(data);
  CHECK(statistics.mean == doctest::Approx((510.0 + 204) / 8 / 255));
  const double square = (2.0 * 255 * 255 + 4.0 * 51 * 51) / 8 / 255 / 255;
  CHECK(statistics.deviation ==
        doctest::Approx(std::sqrt(square - statistics.mean * statistics.mean)));
  std::vector<float> out(4);
  Normaliser(statistics).write(data, 1, out);
  CHECK(static_cast<double>(out[3]) ==
        doctest::Approx((0.2 - statistics.mean) / statistics.deviation));
  data.pixels.assign(8, 7);
  CHECK(pixel_statistics(data).deviation == 1);
  CHECK_THROWS_AS(pixel_statistics(Dataset{}), DataError);
}

TEST_CASE("the real Fashion-MNIST, where it is installed") {
  const fs::path directory = "/usr/share/datasets/fashion-mnist";
  if (!fs::exists(directory)) {
    MESSAGE("not installed: skipped");
    return;
  }
  const Dataset train = read_idx_train(directory);
  CHECK(train.samples() == 60000);
  CHECK(read_idx_test(directory).samples() == 10000);
  CHECK(train.shape.elements() == 784);
  // The known statistics of Fashion-MNIST.
  CHECK(pixel_statistics(train).mean == doctest::Approx(0.2860).epsilon(1e-3));
  CHECK(pixel_statistics(train).deviation == doctest::Approx(0.3530).epsilon(1e-3));
}

}  // namespace
}  // namespace evenstep::kernels
