#include "kernels/data/image_source.h"

#include <zlib.h>

#include <utility>

namespace evenstep::kernels {
namespace {

class StoredImages final : public ImageSource {
 public:
  explicit StoredImages(Dataset data) : data_(std::move(data)) {}

  SampleShape shape() const override { return data_.shape; }
  int classes() const override { return data_.classes; }
  std::int64_t samples() const override { return data_.samples(); }
  int label(std::int64_t index) const override {
    return data_.labels[static_cast<std::size_t>(index)];
  }
  std::span<const std::uint8_t> pixels(std::int64_t index,
                                       std::span<std::uint8_t> /*scratch*/) const override {
    return data_.image(index);
  }
  std::vector<PixelStatistics> statistics() const override {
    return data_.published.empty() ? pixel_statistics(data_) : data_.published;
  }
  bool usually_augmented() const override { return data_.usually_augmented; }
  std::uint32_t checksum() const override {
    const uLong labels = crc32_z(0, data_.labels.data(), data_.labels.size());
    return static_cast<std::uint32_t>(crc32_z(labels, data_.pixels.data(), data_.pixels.size()));
  }

 private:
  Dataset data_;
};

}  // namespace

std::unique_ptr<ImageSource> stored_images(Dataset data) {
  return std::make_unique<StoredImages>(std::move(data));
}

}  // namespace evenstep::kernels
