// Made-up images of any size, for networks whose data set is not at hand: each class has a coarse
// pattern of its own, under noise that is another in each image, so there is something to learn.
#pragma once

#include "kernels/data/image_source.h"

namespace evenstep::kernels {

/// An image is a pure function of seed, class and index: no file, no memory, any one at once.
class SyntheticImages final : public ImageSource {
 public:
  /// Images `first` to `first + samples - 1` of an endless sequence. Throws std::invalid_argument
  /// for images of more than 1024 pixels a row.
  SyntheticImages(SampleShape shape, int classes, std::uint64_t seed, std::int64_t first,
                  std::int64_t samples);

  SampleShape shape() const override { return shape_; }
  int classes() const override { return classes_; }
  std::int64_t samples() const override { return samples_; }
  int label(std::int64_t index) const override {
    return static_cast<int>((first_ + index) % classes_);
  }
  std::span<const std::uint8_t> pixels(std::int64_t index,
                                       std::span<std::uint8_t> scratch) const override;
  std::vector<PixelStatistics> statistics() const override;
  std::uint32_t checksum() const override;

 private:
  SampleShape shape_;
  int classes_;
  std::uint64_t seed_;
  std::int64_t first_;
  std::int64_t samples_;
};

/// Training images that the data set of this shape has: 60,000 as MNIST, 50,000 as CIFAR (colour),
/// 1,281,167 as ImageNet (colour, from 200 pixels a side).
std::int64_t usual_samples(SampleShape shape);

}  // namespace evenstep::kernels
