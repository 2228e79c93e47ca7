// Files for tests of readers: good ones, and ways to spoil them.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/data/dataset.h"

namespace evenstep::kernels::test {

using Bytes = std::vector<std::uint8_t>;

/// A directory of its own for each test case, removed at the end.
class Directory {
 public:
  Directory()
      : path_(std::filesystem::temp_directory_path() / fmt::format("evenstep-data-{}", getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  operator std::filesystem::path() const { return path_; }
  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

inline Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Truncates, flips bits or both.
inline Bytes damage(Bytes bytes, std::mt19937& random) {
  if (random() % 2 == 0) bytes.resize(random() % (bytes.size() + 1));
  for (auto flips = random() % 4; flips > 0 && !bytes.empty(); --flips) {
    bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
  }
  return bytes;
}

/// The message with which `read` fails; empty if it does not. Any other exception ends the test.
template <typename Read>
std::string failure_of(Read&& read) {
  try {
    read();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

/// What a message must say.
inline void check_says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    CAPTURE(message);
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

/// Seeded anew each time; the seed is printed.
inline std::mt19937 new_random() {
  const auto seed = std::random_device{}();
  MESSAGE("seed ", seed);
  return std::mt19937(seed);
}

}  // namespace evenstep::kernels::test
