// Labelled images, wherever they come from: a data set in memory, or made up on request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/data/dataset.h"

namespace evenstep::kernels {

/// All calls are const, the same on every rank, and may come from several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  virtual SampleShape shape() const = 0;
  virtual int classes() const = 0;
  virtual std::int64_t samples() const = 0;
  /// Of a sample, from 0 to samples() - 1; below classes().
  virtual int label(std::int64_t index) const = 0;
  /// The sample's bytes (channels x height x width): in memory, or written to `scratch`, which has
  /// room for them. Allocates nothing.
  virtual std::span<const std::uint8_t> pixels(std::int64_t index,
                                               std::span<std::uint8_t> scratch) const = 0;
  /// What inputs are normalised by, one for each channel.
  virtual std::vector<PixelStatistics> statistics() const = 0;
  /// Whether networks are usually trained on crops and mirror images of these.
  virtual bool usually_augmented() const { return false; }
  /// Differs, but for chance, where the images or labels do.
  virtual std::uint32_t checksum() const = 0;
};

/// A data set in memory, normalised by what is published for it, or else by its own pixels.
std::unique_ptr<ImageSource> stored_images(Dataset data);

}  // namespace evenstep::kernels
