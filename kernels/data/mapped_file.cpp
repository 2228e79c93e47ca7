#include "kernels/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "kernels/data/dataset.h"

namespace evenstep::kernels {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw DataError(fmt::format("{}: {}", path.string(), std::generic_category().message(errno)));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw DataError(
        fmt::format("{}: {}", path.string(),
                    error ? error.message() : "not a regular file; a data file was expected"));
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path);
  struct stat status{};
  void* place = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size > 0)
    place = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, file, 0);
  const int reason = errno;
  close(file);
  if (status.st_size == 0) return;
  errno = reason;
  if (place == MAP_FAILED) fail(path);
  bytes_ = {static_cast<const std::uint8_t*>(place), static_cast<std::size_t>(status.st_size)};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

void page_in(std::span<const std::uint8_t> bytes) {
  static const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(bytes.data()) % page_bytes;
  madvise(const_cast<std::uint8_t*>(bytes.data()) - before, before + bytes.size(),
          MADV_WILLNEED);  // a wish
}

}  // namespace evenstep::kernels
