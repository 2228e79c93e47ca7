// The CIFAR readers: good files, and every way in which a file can be bad.
#include "kernels/data/cifar.h"

#include "kernels/data/images.h"
#include "tests/kernels/data_files.h"

namespace evenstep::kernels::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t image_bytes = 3072;

/// Labels `first`, `first` + 1, ...; pixels that tell the record and the place.
Bytes records(int label_bytes, int first, int count) {
  Bytes bytes;
  for (int r = 0; r < count; ++r) {
    if (label_bytes == 2) bytes.push_back(255);  // the coarse label says nothing to us
    bytes.push_back(static_cast<std::uint8_t>(first + r));
    for (std::size_t i = 0; i < image_bytes; ++i)
      bytes.push_back(static_cast<std::uint8_t>(i + static_cast<std::size_t>(r)));
  }
  return bytes;
}

void write_cifar10(const Directory& directory) {
  for (int batch = 1; batch <= 5; ++batch)
    directory.write(fmt::format("data_batch_{}.bin", batch), records(1, batch, 2));
  directory.write("test_batch.bin", records(1, 0, 3));
}

std::string failure(const fs::path& directory) {
  return failure_of([&] { read_cifar_train(directory); });
}

TEST_CASE("CIFAR-10 from five files, plain and gzipped") {
  const Directory directory;
  write_cifar10(directory);
  fs::remove(directory / "data_batch_3.bin");
  directory.write("data_batch_3.bin.gz", gzip(records(1, 3, 2)));
  const Dataset train = read_training_images(directory);
  CHECK(train.labels == Bytes{1, 2, 2, 3, 3, 4, 4, 5, 5, 6});
  CHECK(train.classes == 10);
  CHECK(train.shape.channels == 3);
  CHECK(train.shape.elements() == 3072);
  REQUIRE(train.pixels.size() == 10 * image_bytes);
  CHECK(train.pixels[image_bytes + 7] == 8);
  CHECK(train.usually_augmented);
  REQUIRE(train.published.size() == 3);  // red, green, blue
  CHECK(train.published[0].mean == 0.4914);
  CHECK(train.published[2].deviation == 0.2616);
  CHECK(read_test_images(directory).labels == Bytes{0, 1, 2});
}

TEST_CASE("CIFAR-100 takes the fine label") {
  const Directory directory;
  directory.write("train.bin", records(2, 95, 5));
  directory.write("test.bin", records(2, 0, 1));
  const Dataset train = read_training_images(directory);
  CHECK(train.labels == Bytes{95, 96, 97, 98, 99});
  CHECK(train.classes == 100);
  CHECK(train.pixels[2 * image_bytes] == 2);
  CHECK(read_test_images(directory).samples() == 1);
}

TEST_CASE("missing files and mixed formats") {
  check_says(failure("/nonexistent/place"), {"/nonexistent/place", "data_batch_1.bin", "--data"});
  const Directory directory;
  write_cifar10(directory);
  fs::remove(directory / "data_batch_4.bin");
  check_says(failure(directory), {"data_batch_4.bin", "data_batch_4.bin.gz", "CIFAR-10"});
  directory.write("test.bin", records(2, 0, 1));
  check_says(failure(directory), {"CIFAR-10 and of CIFAR-100"});
  fs::remove(directory / "test.bin");
  directory.write("t10k-labels-idx1-ubyte.gz", {1});
  check_says(failure_of([&] { read_training_images(directory); }), {"CIFAR and of IDX"});
}

TEST_CASE("a directory in a file's place") {
  const Directory directory;
  write_cifar10(directory);
  fs::remove(directory / "data_batch_2.bin");
  fs::create_directories(directory / "data_batch_2.bin");
  check_says(failure(directory), {"data_batch_2.bin", "not a regular file"});
}

std::string failure_of_batch(const Bytes& bytes, const char* suffix = "") {
  const Directory directory;
  write_cifar10(directory);
  fs::remove(directory / "data_batch_5.bin");
  directory.write(std::string("data_batch_5.bin") + suffix, bytes);
  return failure(directory);
}

TEST_CASE("truncated, oversized and empty files") {
  const Bytes good = records(1, 0, 2);
  for (std::size_t length : {0UL, 1UL, 3072UL, 3074UL, good.size() - 1}) {
    CAPTURE(length);
    const Bytes part(good.begin(), good.begin() + static_cast<long>(length));
    check_says(failure_of_batch(part), {"data_batch_5.bin", "ends at byte", "download it again"});
  }
  check_says(failure_of_batch(Bytes(good.begin(), good.begin() + 5000)),
             {"ends at byte 5000", "record 1 of 3073 bytes from byte 3073"});
  Bytes longer = good;
  longer.push_back(1);
  check_says(failure_of_batch(longer), {"ends at byte 6147", "record 2"});
  Bytes garbage = gzip(good);
  garbage.push_back(1);
  check_says(failure_of_batch(garbage, ".gz"), {"follow the end of the compressed data"});
}

TEST_CASE("labels out of range") {
  Bytes bytes = records(1, 0, 2);
  bytes[3073] = 10;
  check_says(failure_of_batch(bytes), {"label 10 at byte 3073", "0 to 9"});
  const Directory directory;
  directory.write("train.bin", records(2, 99, 2));
  check_says(failure(directory), {"label 100 at byte 3075", "0 to 99"});
}

TEST_CASE("damaged files are read or refused, never more") {
  std::mt19937 random = new_random();
  const Directory directory;
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    const bool gzipped = random() % 2 == 0;
    const Bytes good = records(2, 0, 3);
    fs::remove(directory / "train.bin");
    fs::remove(directory / "train.bin.gz");
    directory.write(gzipped ? "train.bin.gz" : "train.bin",
                    damage(gzipped ? gzip(good) : good, random));
    refused += failure(directory).empty() ? 0 : 1;
  }
  CHECK(refused > 200);
}

}  // namespace
}  // namespace evenstep::kernels::test
