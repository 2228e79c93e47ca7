#include "kernels/data/cifar.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "kernels/data/byte_reader.h"

namespace evenstep::kernels {
namespace {

namespace fs = std::filesystem;

constexpr SampleShape shape{3, 32, 32};
constexpr std::size_t image_bytes = 3 * 32 * 32;
constexpr std::size_t most_label_bytes = 2;

struct Format {
  const char* name;
  int classes;
  std::size_t label_bytes;  // the last one counts
  std::vector<std::string> train;
  std::string test;
  std::vector<PixelStatistics> statistics;  // of the training images, as usually published
};

const Format& cifar10() {
  static const Format format{"CIFAR-10",
                             10,
                             1,
                             {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                              "data_batch_4.bin", "data_batch_5.bin"},
                             "test_batch.bin",
                             {{0.4914, 0.2470}, {0.4822, 0.2435}, {0.4465, 0.2616}}};
  return format;
}

const Format& cifar100() {
  static const Format format{"CIFAR-100", 100,
                             2,           {"train.bin"},
                             "test.bin",  {{0.5071, 0.2673}, {0.4865, 0.2564}, {0.4409, 0.2762}}};
  return format;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // then it is not there for us
  return fs::exists(path, ignored);
}

bool has_any(const fs::path& directory, const Format& format) {
  const auto there = [&](const std::string& name) {
    return is_there(directory / name) || is_there(directory / (name + ".gz"));
  };
  return there(format.test) || std::ranges::any_of(format.train, there);
}

fs::path find_file(const fs::path& directory, const std::string& name, const Format& format) {
  fs::path plain = directory / name;
  fs::path gzipped = directory / (name + ".gz");
  if (is_there(plain)) return plain;
  if (is_there(gzipped)) return gzipped;
  throw DataError(fmt::format(
      "neither {} nor {} is there; --data DIR must hold all files of {}'s binary version",
      plain.string(), gzipped.string(), format.name));
}

/// Appends the file's records.
void read_file(const fs::path& path, const Format& format, Dataset& data) {
  ByteReader reader(path);
  std::array<std::uint8_t, most_label_bytes + image_bytes> bytes;
  const std::span record = std::span(bytes).first(format.label_bytes + image_bytes);
  for (std::int64_t number = 0;; ++number) {
    const std::uint64_t at = reader.position();
    const std::size_t got = reader.read(record);
    if (got == 0 && number > 0) return;
    if (got < record.size())
      reader.fail(
          fmt::format("ends at byte {}, within record {} of {} bytes from byte {}; "
                      "download it again",
                      reader.position(), number, record.size(), at));
    const std::uint8_t label = record[format.label_bytes - 1];
    if (label >= format.classes)
      reader.fail(fmt::format("label {} at byte {}, 0 to {} was expected in {}", label,
                              at + format.label_bytes - 1, format.classes - 1, format.name));
    data.labels.push_back(label);
    const auto image = record.subspan(format.label_bytes);
    data.pixels.insert(data.pixels.end(), image.begin(), image.end());
  }
}

const Format& format_of(const fs::path& directory) {
  if (!has_cifar(directory))
    throw DataError(fmt::format(
        "neither {} nor {} is in {}; name the directory of CIFAR's binary version with --data DIR",
        cifar10().train.front(), cifar100().train.front(), directory.string()));
  return has_any(directory, cifar10()) ? cifar10() : cifar100();
}

Dataset read_files(const fs::path& directory, const Format& format,
                   std::span<const std::string> names) {
  Dataset data{shape, format.classes, {}, {}, format.statistics, true};
  for (const std::string& name : names) read_file(find_file(directory, name, format), format, data);
  return data;
}

}  // namespace

bool has_cifar(const fs::path& directory) {
  const bool ten = has_any(directory, cifar10());
  const bool hundred = has_any(directory, cifar100());
  if (ten && hundred)
    throw DataError(fmt::format("{} has files of CIFAR-10 and of CIFAR-100; give each a directory",
                                directory.string()));
  return ten || hundred;
}

Dataset read_cifar_train(const fs::path& directory) {
  const Format& format = format_of(directory);
  return read_files(directory, format, format.train);
}

Dataset read_cifar_test(const fs::path& directory) {
  const Format& format = format_of(directory);
  return read_files(directory, format, {&format.test, 1});
}

}  // namespace evenstep::kernels
