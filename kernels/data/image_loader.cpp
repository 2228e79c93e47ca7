#include "kernels/data/image_loader.h"

#include "kernels/data/augmentation.h"

namespace evenstep::kernels {

ImageLoader::ImageLoader(const ImageSource& source, std::uint64_t seed, bool augment)
    : source_(source), seed_(seed), augment_(augment), normaliser_(source.statistics()) {}

void ImageLoader::load(std::int64_t epoch, std::int64_t sample, std::span<std::uint8_t> scratch,
                       std::span<float> out) const {
  if (!augment_) return load_plain(source_, sample, scratch, out);
  const auto pixels = source_.pixels(sample, scratch);
  normaliser_.write(pixels, source_.shape(), draw_crop(seed_, epoch, sample), out);
}

void ImageLoader::load_plain(const ImageSource& source, std::int64_t sample,
                             std::span<std::uint8_t> scratch, std::span<float> out) const {
  normaliser_.write(source.pixels(sample, scratch), out);
}

}  // namespace evenstep::kernels
