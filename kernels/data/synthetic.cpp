#include "kernels/data/synthetic.h"

#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/hash.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels {
namespace {

constexpr std::size_t cells_a_side = 8;
constexpr std::size_t cells = cells_a_side * cells_a_side;
constexpr std::size_t widest = 1024;
constexpr std::uint64_t half_bytes = 0x7f7f7f7f7f7f7f7f;  // eight values from 0 to 127

/// Four values from 0 to 127 of each hash.
EVENSTEP_MULTIVERSION void write_noise(std::uint32_t key, std::uint8_t* out, std::size_t count) {
  constexpr std::size_t word = sizeof(std::uint32_t);
  for (std::size_t i = 0; i < count / word; ++i) {
    const std::uint32_t noise =
        hash32(key + static_cast<std::uint32_t>(i)) & static_cast<std::uint32_t>(half_bytes);
    std::memcpy(out + i * word, &noise, word);
  }
  for (std::size_t i = count / word * word; i < count; ++i)
    out[i] = hash32(key - static_cast<std::uint32_t>(i)) & 0x7f;
}

using Pattern = std::array<std::uint8_t, cells>;  // a value from 0 to 127 for each cell

Pattern pattern_of(std::uint64_t key) {
  Pattern pattern;
  for (std::size_t i = 0; i < cells; i += sizeof(std::uint64_t)) {
    const std::uint64_t values = mix64(key + i) & half_bytes;
    std::memcpy(pattern.data() + i, &values, sizeof values);
  }
  return pattern;
}

constexpr std::size_t cell_of(std::size_t place, std::size_t side) {
  return place * cells_a_side / side;
}

/// `row` += the pattern's values there.
EVENSTEP_MULTIVERSION void add(const std::uint8_t* pattern, std::uint8_t* row, std::size_t count) {
  for (std::size_t x = 0; x < count; ++x) row[x] = static_cast<std::uint8_t>(row[x] + pattern[x]);
}

void add_pattern(const Pattern& pattern, std::span<std::uint8_t> plane, std::size_t width) {
  const std::size_t height = plane.size() / width;
  std::array<std::uint8_t, widest> of_row;
  for (std::size_t y = 0; y < height; ++y) {
    const std::size_t band = cell_of(y, height);
    if (y == 0 || band != cell_of(y - 1, height))
      for (std::size_t x = 0; x < width; ++x)
        of_row[x] = pattern[band * cells_a_side + cell_of(x, width)];
    add(of_row.data(), plane.data() + y * width, width);
  }
}

}  // namespace

SyntheticImages::SyntheticImages(SampleShape shape, int classes, std::uint64_t seed,
                                 std::int64_t first, std::int64_t samples)
    : shape_(shape), classes_(classes), seed_(mix64(seed + 1)), first_(first), samples_(samples) {
  if (shape.width > static_cast<int>(widest))
    throw std::invalid_argument(
        fmt::format("synthetic images are at most {} pixels wide, not {}", widest, shape.width));
}

std::span<const std::uint8_t> SyntheticImages::pixels(std::int64_t index,
                                                      std::span<std::uint8_t> scratch) const {
  const auto image = scratch.first(static_cast<std::size_t>(shape_.elements()));
  const auto number = static_cast<std::uint64_t>(first_ + index);
  write_noise(static_cast<std::uint32_t>(mix64(seed_ ^ mix64(number))), image.data(), image.size());
  const auto class_key = mix64(seed_ + static_cast<std::uint64_t>(label(index)));
  const auto channels = static_cast<std::size_t>(shape_.channels);
  const std::size_t plane = image.size() / channels;
  for (std::size_t channel = 0; channel < channels; ++channel)
    add_pattern(pattern_of(class_key + channel * cells), image.subspan(channel * plane, plane),
                static_cast<std::size_t>(shape_.width));
  return image;
}

// A pixel is a sum of two even values from 0 to 127.
std::vector<PixelStatistics> SyntheticImages::statistics() const {
  const double mean = 127.0 / 255;
  const double deviation = std::sqrt(2 * (128.0 * 128 - 1) / 12) / 255;
  return std::vector<PixelStatistics>(static_cast<std::size_t>(shape_.channels), {mean, deviation});
}

std::uint32_t SyntheticImages::checksum() const {
  std::uint64_t sum = seed_;
  for (std::int64_t value :
       {shape_.elements(), std::int64_t{shape_.width}, std::int64_t{classes_}, first_, samples_})
    sum = mix64(sum + static_cast<std::uint64_t>(value));
  return static_cast<std::uint32_t>(sum);
}

std::int64_t usual_samples(SampleShape shape) {
  constexpr int least_large_side = 200;
  if (shape.channels == 1) return 60'000;
  return shape.height < least_large_side ? 50'000 : 1'281'167;
}

}  // namespace evenstep::kernels
