// A long sequence of tokens: the bytes of a text, or the uint16 token files of nanoGPT and others
// (little-endian, no header). Plain files are mapped, so that ranks of a node share them and only
// what is read is in memory; gzipped ones (named .gz) are decompressed into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace evenstep::kernels {

class TokenFile {
 public:
  enum class Kind { text, uint16 };

  /// Reads `path`. `vocabulary`: every token is below it (a text: at least 256). Looks at all
  /// tokens. Throws DataError with file, offset and what was expected.
  TokenFile(const std::filesystem::path& path, Kind kind, std::int64_t vocabulary);

  std::int64_t size() const { return size_; }
  /// Writes tokens [first, first + out.size()) of the sequence, which must have them.
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  /// Whether read() may have to wait for the file.
  bool is_mapped() const { return mapped_; }
  /// Asks the system to read those tokens (mapped_file.h). Thread safe, as is read().
  void page_in(std::int64_t first, std::int64_t count) const;
  /// crc32 of the file's bytes, after decompression.
  std::uint32_t checksum() const;

 private:
  Kind kind_;
  bool mapped_ = false;
  std::span<const std::uint8_t> bytes_;
  std::shared_ptr<const void> storage_;
  std::int64_t size_ = 0;
};

}  // namespace evenstep::kernels
