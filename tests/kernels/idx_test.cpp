// The IDX reader: good files, and every way in which a file can be bad.
#include "kernels/data/idx.h"

#include "tests/kernels/data_files.h"

namespace evenstep::kernels::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* images_name = "train-images-idx3-ubyte";
constexpr const char* labels_name = "train-labels-idx1-ubyte";

void append(Bytes& bytes, std::uint32_t number) {
  for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
}

Bytes idx(std::uint32_t magic, std::vector<std::uint32_t> dimensions, std::size_t payload,
          int modulus) {
  Bytes bytes;
  append(bytes, magic);
  for (std::uint32_t n : dimensions) append(bytes, n);
  for (std::size_t i = 0; i < payload; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(i % static_cast<std::size_t>(modulus)));
  }
  return bytes;
}

Bytes good_images() { return idx(0x803, {6, 3, 2}, 36, 256); }
Bytes good_labels() { return idx(0x801, {6}, 6, 10); }

std::string failure(const fs::path& directory) {
  return failure_of([&] { read_idx_train(directory); });
}

/// Good labels beside these images.
std::string failure_of_images(const Bytes& images, const char* suffix = "") {
  const Directory directory;
  directory.write(std::string(images_name) + suffix, images);
  directory.write(labels_name, good_labels());
  return failure(directory);
}

std::string failure_of_labels(const Bytes& labels) {
  const Directory directory;
  directory.write(images_name, good_images());
  directory.write(labels_name, labels);
  return failure(directory);
}

void check_good(const Dataset& data) {
  CHECK(data.samples() == 6);
  CHECK(data.classes == 10);
  CHECK(data.shape.channels == 1);
  CHECK(data.shape.height == 3);
  CHECK(data.shape.width == 2);
  REQUIRE(data.pixels.size() == 36);
  CHECK(data.pixels[35] == 35);
  CHECK(data.labels == Bytes{0, 1, 2, 3, 4, 5});
}

TEST_CASE("plain, gzipped and mixed files, and gzip files of several pieces") {
  const Directory directory;
  directory.write(images_name, good_images());
  directory.write(std::string(labels_name) + ".gz", gzip(good_labels()));
  check_good(read_idx_train(directory));
  fs::remove(directory / images_name);
  const Bytes whole = good_images();
  Bytes pieces = gzip(Bytes(whole.begin(), whole.begin() + 20));
  const Bytes rest = gzip(Bytes(whole.begin() + 20, whole.end()));
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  directory.write(std::string(images_name) + ".gz", pieces);
  check_good(read_idx_train(directory));
}

TEST_CASE("the plain file is taken where both are there; test files have their own names") {
  const Directory directory;
  directory.write(images_name, good_images());
  directory.write(std::string(images_name) + ".gz", {1, 2, 3});
  directory.write(labels_name, good_labels());
  check_good(read_idx_train(directory));
  directory.write("t10k-images-idx3-ubyte.gz", gzip(good_images()));
  directory.write("t10k-labels-idx1-ubyte", good_labels());
  check_good(read_idx_test(directory));
}

TEST_CASE("missing files name both names tried and the way out") {
  check_says(failure("/nonexistent/place"),
             {"/nonexistent/place/train-images-idx3-ubyte", ".gz", "--data DIR",
              "dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist"});
  const Directory directory;
  directory.write(images_name, good_images());
  check_says(failure(directory), {"train-labels-idx1-ubyte.gz", "--data DIR"});
}

TEST_CASE("a directory in a file's place") {
  const Directory directory;
  fs::create_directories(directory / images_name);
  directory.write(labels_name, good_labels());
  check_says(failure(directory), {images_name, "not a regular file"});
}

TEST_CASE("truncated plain files: header and payload") {
  const Bytes good = good_images();
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::string message =
        failure_of_images(Bytes(good.begin(), good.begin() + static_cast<long>(length)));
    check_says(message, {images_name, "ends at byte", "download it again"});
  }
  check_says(failure_of_images(Bytes(good.begin(), good.begin() + 40)),
             {"ends at byte 40, its header says 52"});
  check_says(failure_of_images(Bytes(good.begin(), good.begin() + 9)),
             {"ends at byte 9", "the image height", "byte 8"});
}

TEST_CASE("trailing bytes, plain and within and after the compressed data") {
  Bytes longer = good_images();
  longer.push_back(0);
  check_says(failure_of_images(longer), {"goes on after byte 52"});
  check_says(failure_of_images(gzip(longer), ".gz"), {"goes on after byte 52"});
  Bytes garbage = gzip(good_images());
  garbage.insert(garbage.end(), {1, 2, 3});
  check_says(failure_of_images(garbage, ".gz"), {"follow the end of the compressed data"});
}

TEST_CASE("truncated gzip files, every length") {
  const Bytes good = gzip(good_images());
  for (std::size_t length = 2; length < good.size(); ++length) {
    CAPTURE(length);
    const Bytes part(good.begin(), good.begin() + static_cast<long>(length));
    check_says(failure_of_images(part, ".gz"), {".gz: ", "compressed data end early"});
  }
}

TEST_CASE("a wrong checksum and broken compressed data") {
  Bytes bad_crc = gzip(good_images());
  bad_crc[bad_crc.size() - 8] ^= 1;
  check_says(failure_of_images(bad_crc, ".gz"), {"corrupt gzip data", "incorrect data check"});
  Bytes bad_block = gzip(good_images());
  bad_block[10] = 0xff;
  check_says(failure_of_images(bad_block, ".gz"), {"corrupt gzip data near byte"});
}

TEST_CASE("wrong magic numbers") {
  check_says(failure_of_images(good_labels()), {"0x00000801", "0x00000803", "images"});
  check_says(failure_of_labels(good_images()), {"0x00000803", "0x00000801", "labels"});
  check_says(failure_of_images(idx(0x0d03, {6, 3, 2}, 36, 256)), {"0x00000d03"});
}

TEST_CASE("implausible dimensions are refused without allocating what they claim") {
  check_says(failure_of_images(idx(0x803, {0, 3, 2}, 0, 256)), {"byte 4 is 0"});
  check_says(failure_of_images(idx(0x803, {6, 0, 2}, 0, 256)), {"height at byte 8 is 0"});
  check_says(failure_of_images(idx(0x803, {6, 3, 0xffffffff}, 36, 256)),
             {"width at byte 12 is 4294967295"});
  check_says(failure_of_images(idx(0x803, {0xffffffff, 65536, 65536}, 36, 256)),
             {"ends at byte 52, its header says 18446744069414584336"});
  check_says(failure_of_labels(idx(0x801, {0xffffffff}, 6, 10)),
             {"ends at byte 14, its header says 4294967303"});
}

TEST_CASE("labels out of range and counts that do not match") {
  Bytes labels = good_labels();
  labels[10] = 10;
  check_says(failure_of_labels(labels), {labels_name, "label 10 at byte 10", "0 to 9"});
  check_says(failure_of_labels(idx(0x801, {5}, 5, 10)),
             {"6 images", "5 labels", images_name, labels_name});
}

TEST_CASE("damaged files are read or refused, never more") {
  std::mt19937 random = new_random();
  const Directory directory;
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const bool images = random() % 2 == 0;
    const bool gzipped = random() % 2 == 0;
    for (const char* name : {images_name, labels_name}) {
      const bool damaged = images == (name == images_name);
      Bytes bytes = name == images_name ? good_images() : good_labels();
      if (damaged && gzipped) bytes = gzip(bytes);
      if (damaged) bytes = damage(bytes, random);
      fs::remove(directory / name);
      fs::remove(directory / (std::string(name) + ".gz"));
      directory.write(std::string(name) + (damaged && gzipped ? ".gz" : ""), bytes);
    }
    refused += failure(directory).empty() ? 0 : 1;  // any other exception ends the test
  }
  CHECK(refused > 1000);
}

}  // namespace
}  // namespace evenstep::kernels::test
