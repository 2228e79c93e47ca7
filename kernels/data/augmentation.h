// The usual augmentation of CIFAR (He et al. 2016, section 4.2): a crop, drawn at random, of the
// image with a border of 4 pixels, mirrored or not.
#pragma once

#include <cstdint>

namespace evenstep::kernels {

struct Crop {
  static constexpr int most = 4;  ///< pixels

  int down = 0;   ///< the crop's upper edge below the image's, from -most to most
  int right = 0;  ///< likewise its left edge
  bool mirrored = false;
  bool operator==(const Crop&) const = default;
};

/// A pure function of its arguments: whichever rank trains on the sample, and whatever came before,
/// it is cropped alike. `sample` is its index in the data set.
Crop draw_crop(std::uint64_t seed, std::int64_t epoch, std::int64_t sample);

}  // namespace evenstep::kernels
