#include "kernels/data/idx.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "kernels/data/byte_reader.h"

namespace evenstep::kernels {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t images_magic = 0x00000803;
constexpr std::uint32_t labels_magic = 0x00000801;
constexpr int classes = 10;

fs::path find_file(const fs::path& directory, const std::string& name) {
  fs::path plain = directory / name;
  fs::path gzipped = directory / (name + ".gz");
  std::error_code ignored;  // then it is not there for us
  if (fs::exists(plain, ignored)) return plain;
  if (fs::exists(gzipped, ignored)) return gzipped;
  throw DataError(
      fmt::format("neither {} nor {}.gz is there; name the directory of the IDX files with --data "
                  "DIR (Debian's package dataset-fashion-mnist puts them in "
                  "/usr/share/datasets/fashion-mnist)",
                  plain.string(), plain.string()));
}

std::uint32_t read_number(ByteReader& reader, std::string_view what) {
  const std::uint64_t at = reader.position();
  std::array<std::uint8_t, 4> bytes;
  if (reader.read(bytes) < bytes.size()) {
    reader.fail(
        fmt::format("ends at byte {}, within its header: {} was expected at byte {}; "
                    "download it again",
                    reader.position(), what, at));
  }
  std::uint32_t number = 0;
  for (std::uint8_t byte : bytes) number = number << 8 | byte;
  return number;
}

void check_magic(ByteReader& reader, std::uint32_t expected, std::string_view kind) {
  const std::uint32_t found = read_number(reader, "the magic number");
  if (found == expected) return;
  reader.fail(
      fmt::format("not an IDX file of {}: its first four bytes are {:#010x}, {:#010x} was "
                  "expected",
                  kind, found, expected));
}

/// Never more than 65536, so that products of three dimensions fit 64 bits.
int read_side(ByteReader& reader, std::string_view what) {
  constexpr std::uint32_t limit = 65536;
  const std::uint64_t at = reader.position();
  const std::uint32_t side = read_number(reader, what);
  if (side >= 1 && side <= limit) return static_cast<int>(side);
  reader.fail(fmt::format("{} at byte {} is {}, 1 to {} was expected", what, at, side, limit));
}

std::uint32_t read_count(ByteReader& reader) {
  const std::uint64_t at = reader.position();
  const std::uint32_t count = read_number(reader, "the number of samples");
  if (count == 0) {
    reader.fail(fmt::format("the number of samples at byte {} is 0, at least 1 was expected", at));
  }
  return count;
}

/// Reads `count` bytes and then the end of the file. What a header claims is not believed before
/// the bytes are there: memory grows with what has been read.
std::vector<std::uint8_t> read_rest(ByteReader& reader, std::uint64_t count) {
  constexpr std::uint64_t piece = 1 << 20;
  const std::uint64_t expected_end = reader.position() + count;
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < count) {
    const std::size_t old_size = bytes.size();
    const std::size_t wanted = std::min(piece, count - old_size);
    bytes.resize(old_size + wanted);
    if (reader.read(std::span(bytes).last(wanted)) < wanted) {
      reader.fail(fmt::format("ends at byte {}, its header says {}; download it again",
                              reader.position(), expected_end));
    }
  }
  std::uint8_t extra = 0;
  if (reader.read(std::span(&extra, 1)) != 0) {
    reader.fail(
        fmt::format("goes on after byte {}, where it should end by its header; download "
                    "it again",
                    expected_end));
  }
  return bytes;
}

struct Images {
  std::uint32_t count;
  SampleShape shape;
  std::vector<std::uint8_t> pixels;
};

Images read_images(const fs::path& path) {
  ByteReader reader(path);
  check_magic(reader, images_magic, "images");
  const std::uint32_t count = read_count(reader);
  const int height = read_side(reader, "the image height");
  const int width = read_side(reader, "the image width");
  const SampleShape shape{1, height, width};
  const auto sample_bytes = static_cast<std::uint64_t>(shape.elements());
  return {count, shape, read_rest(reader, count * sample_bytes)};
}

std::vector<std::uint8_t> read_labels(const fs::path& path) {
  ByteReader reader(path);
  check_magic(reader, labels_magic, "labels");
  const std::uint32_t count = read_count(reader);
  const std::uint64_t start = reader.position();
  std::vector<std::uint8_t> labels = read_rest(reader, count);
  const auto bad = std::find_if(labels.begin(), labels.end(), [](int l) { return l >= classes; });
  if (bad != labels.end()) {
    reader.fail(fmt::format("label {} at byte {}, 0 to {} was expected", *bad,
                            start + static_cast<std::uint64_t>(bad - labels.begin()), classes - 1));
  }
  return labels;
}

Dataset read_pair(const fs::path& directory, const std::string& prefix) {
  const fs::path images_path = find_file(directory, prefix + "-images-idx3-ubyte");
  const fs::path labels_path = find_file(directory, prefix + "-labels-idx1-ubyte");
  Images images = read_images(images_path);
  std::vector<std::uint8_t> labels = read_labels(labels_path);
  if (images.count != labels.size()) {
    throw DataError(fmt::format("{} has {} images, but {} has {} labels; they must belong together",
                                images_path.string(), images.count, labels_path.string(),
                                labels.size()));
  }
  return {images.shape, classes, std::move(images.pixels), std::move(labels)};
}

}  // namespace

bool has_idx(const fs::path& directory) {
  for (const std::string prefix : {"train", "t10k"})
    for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"})
      for (const char* suffix : {"", ".gz"}) {
        std::error_code ignored;  // then it is not there for us
        if (fs::exists(directory / (prefix + kind + suffix), ignored)) return true;
      }
  return false;
}

Dataset read_idx_train(const fs::path& directory) { return read_pair(directory, "train"); }

Dataset read_idx_test(const fs::path& directory) { return read_pair(directory, "t10k"); }

}  // namespace evenstep::kernels
