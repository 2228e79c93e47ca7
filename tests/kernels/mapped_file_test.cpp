// What page_in() has the system bring into memory, asked of the system.
#include "kernels/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/kernels/data_files.h"

namespace evenstep::kernels::test {
namespace {

constexpr std::size_t page_bytes = 4096;

/// Drops what the system has kept of the file. Not where the file system is memory itself.
void forget(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDWR);
  REQUIRE(file >= 0);
  CHECK(fsync(file) == 0);
  CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  close(file);
}

/// `bytes` begins at a page.
std::size_t pages_in_memory(std::span<const std::uint8_t> bytes) {
  std::vector<unsigned char> pages((bytes.size() + page_bytes - 1) / page_bytes);
  REQUIRE(mincore(const_cast<std::uint8_t*>(bytes.data()), bytes.size(), pages.data()) == 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(pages, [](auto p) { return (p & 1) != 0; }));
}

TEST_CASE("all pages of what is paged in, to the last byte, and not the whole file") {
  const Directory directory;
  constexpr std::size_t pages = 4096;
  directory.write("file", Bytes(pages * page_bytes, 7));
  forget(directory / "file");
  const MappedFile file(directory / "file");
  if (pages_in_memory(file.bytes()) > 0) {
    MESSAGE("this file system keeps files in memory: nothing to see");
    return;
  }
  page_in({});
  CHECK(pages_in_memory(file.bytes()) == 0);
  // Begins at a page's end and ends at a page's beginning; the system reads some more around.
  const auto middle = file.bytes().subspan(2000 * page_bytes - 1, 100 * page_bytes + 2);
  page_in(middle);
  const auto asked_for = file.bytes().subspan(1999 * page_bytes, 102 * page_bytes);
  for (int i = 0; i < 1000 && pages_in_memory(asked_for) < 102; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(pages_in_memory(asked_for) == 102);
  CHECK(pages_in_memory(file.bytes()) < pages / 2);
}

}  // namespace
}  // namespace evenstep::kernels::test
