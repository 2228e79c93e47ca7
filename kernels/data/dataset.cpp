#include "kernels/data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace evenstep::kernels {
namespace {

__extension__ using Wide = unsigned __int128;

using Histogram = std::array<std::uint64_t, 256>;

PixelStatistics statistics_of(const Histogram& counts) {
  // Below 2^64 for any data set of less than 2^48 pixels; products of two need 128 bits.
  std::uint64_t n = 0;
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  for (std::uint64_t value = 0; value < 256; ++value) {
    n += counts[value];
    sum += counts[value] * value;
    squares += counts[value] * value * value;
  }
  const Wide spread = Wide{n} * squares - Wide{sum} * sum;  // n^2 x variance
  const double deviation = std::sqrt(static_cast<double>(spread)) / static_cast<double>(n);
  const double mean = static_cast<double>(sum) / static_cast<double>(n);
  // Images that are all alike are only shifted.
  return {mean / 255, deviation > 0 ? deviation / 255 : 1};
}

/// A row of `out.size()` pixels, shifted and mirrored.
void write_row(const std::array<float, 256>& value_of, const std::uint8_t* row, Crop crop,
               std::span<float> out) {
  const int width = static_cast<int>(out.size());
  for (int x = 0; x < width; ++x) {
    const int from = (crop.mirrored ? width - 1 - x : x) + crop.right;
    out[static_cast<std::size_t>(x)] = from >= 0 && from < width ? value_of[row[from]] : 0;
  }
}

}  // namespace

std::vector<PixelStatistics> pixel_statistics(const Dataset& data) {
  if (data.pixels.empty()) throw DataError("a data set without pixels has no mean");
  const auto channels = static_cast<std::size_t>(data.shape.channels);
  const auto plane = static_cast<std::size_t>(data.shape.elements()) / channels;
  std::vector<Histogram> counts(channels);
  for (std::size_t i = 0; i < data.pixels.size(); i += plane)
    for (std::uint8_t pixel : std::span(data.pixels).subspan(i, plane))
      ++counts[i / plane % channels][pixel];
  std::vector<PixelStatistics> statistics(channels);
  std::ranges::transform(counts, statistics.begin(), statistics_of);
  return statistics;
}

Normaliser::Normaliser(std::span<const PixelStatistics> statistics) {
  for (const PixelStatistics& channel : statistics) {
    std::array<float, 256>& values = value_of_.emplace_back();
    for (int value = 0; value < 256; ++value) {
      const double centred = value / 255.0 - channel.mean;
      values[static_cast<std::size_t>(value)] = static_cast<float>(centred / channel.deviation);
    }
  }
}

void Normaliser::write(std::span<const std::uint8_t> pixels, std::span<float> out) const {
  const std::size_t plane = pixels.size() / value_of_.size();
  for (std::size_t channel = 0; channel < value_of_.size(); ++channel)
    for (std::size_t i = channel * plane; i < (channel + 1) * plane; ++i)
      out[i] = value_of_[channel][pixels[i]];
}

void Normaliser::write(std::span<const std::uint8_t> pixels, SampleShape shape, Crop crop,
                       std::span<float> out) const {
  const auto width = static_cast<std::size_t>(shape.width);
  for (int channel = 0; channel < shape.channels; ++channel)
    for (int y = 0; y < shape.height; ++y) {
      const int from = y + crop.down;
      const auto first = static_cast<std::size_t>(channel * shape.height) * width;
      const auto row = out.subspan(first + static_cast<std::size_t>(y) * width, width);
      if (from < 0 || from >= shape.height)
        std::ranges::fill(row, 0.0F);
      else
        write_row(value_of_[static_cast<std::size_t>(channel)],
                  pixels.data() + first + static_cast<std::size_t>(from) * width, crop, row);
    }
}

}  // namespace evenstep::kernels
