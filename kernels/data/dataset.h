// Labelled images in memory, as bytes, and the normalisation that turns them into inputs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/data/augmentation.h"
#include "kernels/network.h"

namespace evenstep::kernels {

/// A malformed or missing data file. what() names file, offset and what was expected.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Mean and standard deviation of a channel's pixels, in units of full brightness.
struct PixelStatistics {
  double mean = 0;
  double deviation = 1;
};

struct Dataset {
  SampleShape shape;
  int classes = 0;
  std::vector<std::uint8_t> pixels;             ///< samples x channels x height x width
  std::vector<std::uint8_t> labels;             ///< one a sample, each below `classes`
  std::vector<PixelStatistics> published = {};  ///< by channel; empty: there are none
  bool usually_augmented = false;               ///< by crops and mirror images

  std::int64_t samples() const { return static_cast<std::int64_t>(labels.size()); }
  std::span<const std::uint8_t> image(std::int64_t index) const {
    const auto elements = static_cast<std::size_t>(shape.elements());
    return std::span(pixels).subspan(static_cast<std::size_t>(index) * elements, elements);
  }
};

/// By channel. Exact whole-number sums over all pixels, so the same on every rank.
std::vector<PixelStatistics> pixel_statistics(const Dataset& data);

/// Turns bytes into network inputs: (pixel/255 - mean) / deviation, by channel.
class Normaliser {
 public:
  explicit Normaliser(std::span<const PixelStatistics> statistics);
  /// `pixels` and `out` are channels x height x width, with a channel for each of the statistics.
  void write(std::span<const std::uint8_t> pixels, std::span<float> out) const;
  /// The same for a crop; what of it lies outside the image is 0, the mean brightness.
  void write(std::span<const std::uint8_t> pixels, SampleShape shape, Crop crop,
             std::span<float> out) const;

 private:
  std::vector<std::array<float, 256>> value_of_;  // by channel
};

}  // namespace evenstep::kernels
