// Training images as a network takes them: cropped and mirrored if wanted, and normalised.
#pragma once

#include "kernels/data/image_source.h"

namespace evenstep::kernels {

/// What it loads is a pure function of seed, epoch and sample. Const calls may come from several
/// threads at once, and allocate nothing.
class ImageLoader {
 public:
  /// `source` must outlive the loader. `augment`: images are cropped and mirrored by draw_crop.
  ImageLoader(const ImageSource& source, std::uint64_t seed, bool augment);

  /// Writes the source's image `sample`, as it is in `epoch`, to `out`. `scratch` and `out` have
  /// room for an image (channels x height x width).
  void load(std::int64_t epoch, std::int64_t sample, std::span<std::uint8_t> scratch,
            std::span<float> out) const;
  /// As it is used for testing: never cropped or mirrored. Of any source of that shape.
  void load_plain(const ImageSource& source, std::int64_t sample, std::span<std::uint8_t> scratch,
                  std::span<float> out) const;

 private:
  const ImageSource& source_;
  std::uint64_t seed_;
  bool augment_;
  Normaliser normaliser_;
};

}  // namespace evenstep::kernels
