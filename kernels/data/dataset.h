// Labelled images in memory, as raw bytes, and the normalisation that turns them into inputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/network.h"

namespace evenstep::kernels {

/// A malformed or missing data file. what() names file, offset and what was expected.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Mean and standard deviation of the pixels, in units of full brightness.
struct PixelStatistics {
  double mean = 0;
  double deviation = 1;
};

struct Dataset {
  SampleShape shape;
  int classes = 0;
  std::vector<std::uint8_t> pixels;  ///< samples x channels x height x width
  std::vector<std::uint8_t> labels;  ///< one a sample, each below `classes`

  std::int64_t samples() const { return static_cast<std::int64_t>(labels.size()); }
};

/// Exact whole-number sums over all pixels, so the same on every rank.
PixelStatistics pixel_statistics(const Dataset& data);

/// Copies samples into network inputs: (pixel/255 - mean) / deviation.
class Normaliser {
 public:
  explicit Normaliser(PixelStatistics statistics);
  /// Writes sample `index` of `data` to `out` (shape.elements() values).
  void write(const Dataset& data, std::int64_t index, std::span<float> out) const;

 private:
  float value_of_[256];
};

}  // namespace evenstep::kernels
