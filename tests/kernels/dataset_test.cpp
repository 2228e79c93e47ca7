// Statistics and normalisation, on made-up pixels and on the real Fashion-MNIST.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "kernels/data/idx.h"
#include "kernels/data/image_source.h"

namespace evenstep::kernels {
namespace {

namespace fs = std::filesystem;

TEST_CASE("statistics and normalisation") {
  Dataset data{{1, 2, 2}, 10, {0, 255, 255, 0, 51, 51, 51, 51}, {1, 2}};
  const PixelStatistics statistics = pixel_statistics(data).at(0);
  CHECK(statistics.mean == doctest::Approx((510.0 + 204) / 8 / 255));
  const double square = (2.0 * 255 * 255 + 4.0 * 51 * 51) / 8 / 255 / 255;
  CHECK(statistics.deviation ==
        doctest::Approx(std::sqrt(square - statistics.mean * statistics.mean)));
  std::vector<float> out(4);
  Normaliser(pixel_statistics(data)).write(data.image(1), out);
  CHECK(static_cast<double>(out[3]) ==
        doctest::Approx((0.2 - statistics.mean) / statistics.deviation));
  data.pixels.assign(8, 7);
  CHECK(pixel_statistics(data).at(0).deviation == 1);
  CHECK_THROWS_AS(pixel_statistics(Dataset{}), DataError);
}

TEST_CASE("each channel has its own statistics") {
  const Dataset data{{2, 1, 2}, 10, {10, 20, 200, 210, 30, 40, 220, 230}, {1, 2}};
  const auto statistics = pixel_statistics(data);
  REQUIRE(statistics.size() == 2);
  CHECK(statistics[0].mean == doctest::Approx(25.0 / 255));
  CHECK(statistics[1].mean == doctest::Approx(215.0 / 255));
  CHECK(statistics[0].deviation == doctest::Approx(std::sqrt(125.0) / 255));
  std::vector<float> out(4);
  Normaliser(statistics).write(data.image(1), out);
  CHECK(static_cast<double>(out[1]) == doctest::Approx(15 / std::sqrt(125.0)));
  CHECK(static_cast<double>(out[2]) == doctest::Approx(5 / std::sqrt(125.0)));
}

TEST_CASE("what is published for a data set goes before its own statistics") {
  Dataset data{{1, 1, 2}, 10, {0, 255}, {1}};
  CHECK(stored_images(data)->statistics().at(0).mean == 0.5);
  data.published = {{0.25, 0.5}};
  CHECK(stored_images(data)->statistics().at(0).mean == 0.25);
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
  CHECK(pixel_statistics(train).at(0).mean == doctest::Approx(0.2860).epsilon(1e-3));
  CHECK(pixel_statistics(train).at(0).deviation == doctest::Approx(0.3530).epsilon(1e-3));
}

}  // namespace
}  // namespace evenstep::kernels
