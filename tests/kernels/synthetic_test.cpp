// Made-up images: a function of seed and index alone, with a class to be told by.
#include "kernels/data/synthetic.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace evenstep::kernels {
namespace {

constexpr SampleShape shapes[] = {{1, 28, 28}, {3, 32, 32}, {3, 299, 299}};

std::vector<std::uint8_t> image(const ImageSource& source, std::int64_t index) {
  std::vector<std::uint8_t> scratch(static_cast<std::size_t>(source.shape().elements()));
  const auto pixels = source.pixels(index, scratch);
  return {pixels.begin(), pixels.end()};
}

/// Mean absolute difference of two images, smoothed: noise averages out, patterns do not.
double distance(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b, int cell) {
  double sum = 0;
  for (std::size_t i = 0; i + static_cast<std::size_t>(cell) <= a.size();
       i += static_cast<std::size_t>(cell)) {
    int difference = 0;
    for (std::size_t k = i; k < i + static_cast<std::size_t>(cell); ++k)
      difference += int{a[k]} - int{b[k]};
    sum += std::abs(difference) / static_cast<double>(cell);
  }
  return sum * cell / static_cast<double>(a.size());
}

TEST_CASE("an image depends on seed and index alone") {
  for (const SampleShape shape : shapes) {
    const SyntheticImages all(shape, 10, 1, 0, 100);
    const SyntheticImages later(shape, 10, 1, 60, 40);
    CHECK(image(all, 61) == image(all, 61));
    CHECK(image(all, 61) == image(later, 1));
    CHECK(all.label(61) == later.label(1));
    CHECK(image(all, 61) != image(all, 71));  // of the same class
    CHECK(image(all, 61) != image(SyntheticImages(shape, 10, 2, 0, 100), 61));
    CHECK(all.checksum() == SyntheticImages(shape, 10, 1, 0, 100).checksum());
    CHECK(all.checksum() != later.checksum());
    CHECK(all.checksum() != SyntheticImages(shape, 10, 2, 0, 100).checksum());
  }
}

TEST_CASE("known values, computed apart") {
  const SyntheticImages small({1, 2, 3}, 10, 1, 0, 100);
  CHECK(image(small, 5) == std::vector<std::uint8_t>{81, 171, 19, 83, 76, 87});
}

TEST_CASE("labels take turns, and classes look alike") {
  for (const SampleShape shape : shapes) {
    const SyntheticImages images(shape, 7, 3, 0, 100);
    CHECK(images.label(13) == 6);
    CHECK(images.label(14) == 0);
    const int cell = shape.width / 8;
    const double alike = distance(image(images, 1), image(images, 8), cell);
    const double other = distance(image(images, 1), image(images, 9), cell);
    CHECK(other > 1.5 * alike);
  }
}

TEST_CASE("pixels have the mean and deviation they are normalised by") {
  // One image of each of many classes, as each has a pattern of its own.
  for (const SampleShape shape : shapes) {
    const SyntheticImages images(shape, 1000, 5, 0, 1000);
    Dataset data{shape, 0, {}, {}};
    for (int i = 0; i < 60; ++i)
      for (std::uint8_t pixel : image(images, i)) data.pixels.push_back(pixel);
    const auto expected = images.statistics();
    const auto seen = pixel_statistics(data);
    REQUIRE(seen.size() == expected.size());
    for (std::size_t c = 0; c < seen.size(); ++c) {
      CHECK(seen[c].mean == doctest::Approx(expected[c].mean).epsilon(0.02));
      CHECK(seen[c].deviation == doctest::Approx(expected[c].deviation).epsilon(0.02));
    }
  }
}

TEST_CASE("sizes") {
  CHECK(usual_samples({1, 28, 28}) == 60'000);
  CHECK(usual_samples({3, 32, 32}) == 50'000);
  CHECK(usual_samples({3, 224, 224}) == 1'281'167);
  CHECK_THROWS_AS(SyntheticImages({1, 1, 1025}, 10, 1, 0, 1), std::invalid_argument);
}

}  // namespace
}  // namespace evenstep::kernels
