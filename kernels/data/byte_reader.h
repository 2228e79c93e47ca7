// Reads a file, plain or gzipped, as a stream of bytes, and lets nothing pass: truncation, a wrong
// checksum and anything after the end of the compressed data are errors. (gzread of zlib takes the
// last two for a good end.)
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/data/dataset.h"

struct z_stream_s;

namespace evenstep::kernels {

class ByteReader {
 public:
  /// Throws DataError if `path` is not a readable regular file.
  explicit ByteReader(std::filesystem::path path);

  /// Fills `out` and returns its size; fewer bytes only at the end of the data.
  std::size_t read(std::span<std::uint8_t> out);

  /// Bytes read so far, after decompression.
  std::uint64_t position() const { return position_; }

  /// Throws DataError: the path, then `what`.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct EndInflate {
    void operator()(z_stream_s* stream) const;
  };
  void start_inflate();
  void refill();
  std::size_t inflate_some(std::span<std::uint8_t> out);
  void next_member();
  std::size_t copy_some(std::span<std::uint8_t> out);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::uint8_t> buffer_;                 // as in the file
  std::span<const std::uint8_t> input_;              // what of buffer_ is not used yet
  std::unique_ptr<z_stream_s, EndInflate> inflate_;  // null: a plain file
  std::uint64_t file_position_ = 0;                  // bytes taken out of the file
  std::uint64_t position_ = 0;
  bool ended_ = false;
};

}  // namespace evenstep::kernels
