#include "kernels/data/dataset.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace evenstep::kernels {
namespace {

__extension__ using Wide = unsigned __int128;

std::array<std::uint64_t, 256> histogram(std::span<const std::uint8_t> pixels) {
  std::array<std::uint64_t, 256> counts{};
  for (std::uint8_t pixel : pixels) ++counts[pixel];
  return counts;
}

}  // namespace

PixelStatistics pixel_statistics(const Dataset& data) {
  if (data.pixels.empty()) throw DataError("a data set without pixels has no mean");
  const auto counts = histogram(data.pixels);
  // Below 2^64 for any data set of less than 2^48 pixels; products of two need 128 bits.
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  for (std::uint64_t value = 0; value < 256; ++value) {
    sum += counts[value] * value;
    squares += counts[value] * value * value;
  }
  const std::uint64_t n = data.pixels.size();
  const Wide spread = Wide{n} * squares - Wide{sum} * sum;  // n^2 x variance
  const double deviation = std::sqrt(static_cast<double>(spread)) / static_cast<double>(n);
  const double mean = static_cast<double>(sum) / static_cast<double>(n);
  // Images that are all alike are only shifted.
  return {mean / 255, deviation > 0 ? deviation / 255 : 1};
}

Normaliser::Normaliser(PixelStatistics statistics) {
  for (int value = 0; value < 256; ++value) {
    const double brightness = value / 255.0;
    const double centred = brightness - statistics.mean;
    value_of_[value] = static_cast<float>(centred / statistics.deviation);
  }
}

void Normaliser::write(const Dataset& data, std::int64_t index, std::span<float> out) const {
  const auto elements = static_cast<std::size_t>(data.shape.elements());
  const std::uint8_t* pixels = data.pixels.data() + static_cast<std::size_t>(index) * elements;
  for (std::size_t i = 0; i < elements; ++i) out[i] = value_of_[pixels[i]];
}

}  // namespace evenstep::kernels
