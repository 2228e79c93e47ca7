// A file in memory, as the system pages it in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace evenstep::kernels {

/// Read only. What others do to the file shows, as with every mapping.
class MappedFile {
 public:
  /// Throws DataError if `path` is not a readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Asks the system to read the pages of `bytes`, of a mapped file, and does not wait for them: many
/// are on their way at once.
void page_in(std::span<const std::uint8_t> bytes);

}  // namespace evenstep::kernels
