// Random crops and mirror images: against values computed by hand, and as a function of seed, epoch
// and sample alone.
#include "kernels/data/augmentation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

#include "kernels/data/image_loader.h"

namespace evenstep::kernels {
namespace {

Dataset two_channels() {
  return {{2, 2, 3}, 10, {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}, {0}, {{0, 1}, {0, 0.5}}};
}

/// Back in units of pixel values, where channels are divided by 1 and 0.5.
std::vector<int> cropped(Crop crop) {
  const Dataset data = two_channels();
  std::vector<float> out(12, -1);
  Normaliser(data.published).write(data.image(0), data.shape, crop, out);
  std::vector<int> pixels;
  for (std::size_t i = 0; i < out.size(); ++i)
    pixels.push_back(static_cast<int>(std::lround(out[i] * (i < 6 ? 255 : 127.5F))));
  return pixels;
}

TEST_CASE("crops by hand") {
  using Pixels = std::vector<int>;
  CHECK(cropped({}) == Pixels{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
  CHECK(cropped({0, 0, true}) == Pixels{3, 2, 1, 6, 5, 4, 13, 12, 11, 16, 15, 14});
  CHECK(cropped({1, 0, false}) == Pixels{4, 5, 6, 0, 0, 0, 14, 15, 16, 0, 0, 0});
  CHECK(cropped({-1, 0, false}) == Pixels{0, 0, 0, 1, 2, 3, 0, 0, 0, 11, 12, 13});
  CHECK(cropped({0, 1, false}) == Pixels{2, 3, 0, 5, 6, 0, 12, 13, 0, 15, 16, 0});
  CHECK(cropped({0, -2, false}) == Pixels{0, 0, 1, 0, 0, 4, 0, 0, 11, 0, 0, 14});
  CHECK(cropped({1, 1, true}) == Pixels{0, 6, 5, 0, 0, 0, 0, 16, 15, 0, 0, 0});
  CHECK(cropped({-1, -1, true}) == Pixels{0, 0, 0, 2, 1, 0, 0, 0, 0, 12, 11, 0});
  for (const Crop far : {Crop{4, 4, false}, Crop{-4, 0, true}, Crop{0, 3, true}})
    CHECK(cropped(far) == Pixels(12, 0));
}

TEST_CASE("the border is of mean brightness") {
  const Dataset data{{1, 1, 1}, 10, {255}, {0}, {{0.25, 0.5}}};
  std::vector<float> out(1, -1);
  Normaliser(data.published).write(data.image(0), data.shape, {1, 0, false}, out);
  CHECK(out[0] == 0);
  Normaliser(data.published).write(data.image(0), data.shape, {0, 0, true}, out);
  CHECK(out[0] == 1.5F);
}

TEST_CASE("all crops are equally likely") {
  std::map<int, int> down;
  std::map<int, int> right;
  int mirrored = 0;
  int both = 0;
  constexpr double draws = 90'000;
  for (int sample = 0; sample < draws; ++sample) {
    const Crop crop = draw_crop(1, 3, sample);
    ++down[crop.down];
    ++right[crop.right];
    mirrored += crop.mirrored ? 1 : 0;
    both += crop.mirrored && crop.down == 4 && crop.right == -4 ? 1 : 0;
  }
  REQUIRE(down.size() == 9);
  REQUIRE(right.size() == 9);
  for (int place = -4; place <= 4; ++place) {
    CHECK(down[place] == doctest::Approx(draws / 9).epsilon(0.05));
    CHECK(right[place] == doctest::Approx(draws / 9).epsilon(0.05));
  }
  CHECK(mirrored == doctest::Approx(draws / 2).epsilon(0.02));
  CHECK(both == doctest::Approx(draws / 162).epsilon(0.2));
}

TEST_CASE("seed, epoch and sample each make another crop; values computed apart") {
  CHECK(draw_crop(1, 0, 0) == Crop{0, -1, true});
  CHECK(draw_crop(7, 12, 49'999) == Crop{1, 2, true});
  int same[3] = {};
  for (int sample = 0; sample < 1000; ++sample) {
    const Crop crop = draw_crop(1, 0, sample);
    same[0] += crop == draw_crop(2, 0, sample) ? 1 : 0;
    same[1] += crop == draw_crop(1, 1, sample) ? 1 : 0;
    same[2] += crop == draw_crop(1, 0, sample + 1) ? 1 : 0;
  }
  for (int count : same) CHECK(count < 30);  // of 162 that are possible
}

TEST_CASE("a sample is loaded alike whatever was loaded before, and plain for testing") {
  Dataset data{{1, 6, 6}, 10, {}, {0, 1, 2, 3}};
  for (int i = 0; i < 4 * 36; ++i) data.pixels.push_back(static_cast<std::uint8_t>(i));
  const auto source = stored_images(data);
  const ImageLoader loader(*source, 5, true);
  std::vector<std::uint8_t> scratch(36);
  std::vector<float> out(36);
  const auto load = [&](std::int64_t epoch, std::int64_t sample) {
    loader.load(epoch, sample, scratch, out);
    return out;
  };
  const auto resumed = ImageLoader(*source, 5, true);
  std::vector<float> expected(36);
  int differ = 0;
  for (int epoch = 0; epoch < 8; ++epoch)
    for (int sample = 0; sample < 4; ++sample) {
      Normaliser(pixel_statistics(data))
          .write(data.image(sample), data.shape, draw_crop(5, epoch, sample), expected);
      CHECK(load(epoch, sample) == expected);
      loader.load_plain(*source, sample, scratch, out);
      differ += out != expected ? 1 : 0;
    }
  resumed.load(6, 2, scratch, out);
  const auto fresh = out;
  CHECK(load(6, 2) == fresh);
  CHECK(differ > 20);
}

}  // namespace
}  // namespace evenstep::kernels
