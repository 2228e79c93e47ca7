// The binary copy of a LIBSVM file: a header, then starts, entries, column numbers and labels as
// they lie in memory. Whole numbers are the machine's own; another byte order does not match the
// magic.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "kernels/data/byte_reader.h"
#include "kernels/data/libsvm.h"
#include "kernels/data/mapped_file.h"

namespace evenstep::kernels {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t magic = 0x32307370734e5645;  // "EVNsps02"

struct Header {
  std::uint64_t magic;
  std::uint64_t source_bytes;
  std::int64_t source_changed_ns;
  std::int64_t columns;
  std::uint64_t rows;
  std::uint64_t entries;
  std::array<double, 2> label_values;
  std::uint64_t checksum;
};

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path.string(), what));
}

std::string system_reason() { return std::generic_category().message(errno); }

/// Size and time of change of the text, in a header that has nothing else.
Header stamp_of(const fs::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) fail(path, system_reason());
  return {.magic = magic,
          .source_bytes = static_cast<std::uint64_t>(status.st_size),
          .source_changed_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec,
          .columns = 0,
          .rows = 0,
          .entries = 0,
          .label_values = {},
          .checksum = 0};
}

template <typename T>
std::span<const T> part(const MappedFile& file, std::size_t offset, std::size_t count) {
  return {reinterpret_cast<const T*>(file.bytes().data() + offset), count};
}

/// Bytes that the header's counts ask for; nothing where they are beyond all measure.
std::optional<std::uint64_t> expected_bytes(const Header& header) {
  constexpr std::uint64_t most = std::uint64_t{1} << 48;
  if (header.rows > most || header.entries > most || header.columns < 0 ||
      header.columns > std::int64_t{std::numeric_limits<std::uint32_t>::max()})
    return std::nullopt;
  return sizeof(Header) + (header.rows + 1) * sizeof(std::uint64_t) +
         header.entries * sizeof(SparseEntry) +
         static_cast<std::uint64_t>(header.columns) * sizeof(std::uint32_t) + header.rows;
}

/// Nothing of the file may lead a reader of the rows out of it.
bool is_sound(const SparseRows& rows) {
  if (rows.starts.front() != 0 || rows.starts.back() != rows.entries.size()) return false;
  for (std::size_t r = 0; r + 1 < rows.starts.size(); ++r)
    if (rows.starts[r] > rows.starts[r + 1]) return false;
  for (const SparseEntry& entry : rows.entries)
    if (std::int64_t{entry.column} >= rows.columns) return false;
  return std::ranges::all_of(rows.in_file,
                             [&](std::uint32_t c) { return std::int64_t{c} < rows.columns; });
}

/// Nothing where the copy is not there, or is of another state of the text.
std::optional<SparseRows> map_copy(const fs::path& cache, const Header& stamp) {
  std::error_code error;
  if (!fs::exists(cache, error)) return std::nullopt;
  ByteReader reader(cache);  // refuses what is no file
  Header header{};
  if (reader.read({reinterpret_cast<std::uint8_t*>(&header), sizeof header}) < sizeof header ||
      header.magic != magic)
    fail(cache, "is no binary copy of a LIBSVM file; name another --cache");
  if (header.source_bytes != stamp.source_bytes ||
      header.source_changed_ns != stamp.source_changed_ns)
    return std::nullopt;
  const auto mapped = std::make_shared<const MappedFile>(cache);
  const std::uint64_t size = mapped->bytes().size();
  if (expected_bytes(header) != size)
    fail(cache, fmt::format("has {} bytes, its header says {}; delete it", size,
                            expected_bytes(header).value_or(UINT64_MAX)));
  const std::size_t starts_end = sizeof(Header) + (header.rows + 1) * sizeof(std::uint64_t);
  const std::size_t entries_end = starts_end + header.entries * sizeof(SparseEntry);
  const auto columns = static_cast<std::size_t>(header.columns);
  const std::size_t columns_end = entries_end + columns * sizeof(std::uint32_t);
  SparseRows rows{header.columns,
                  header.label_values,
                  part<std::uint64_t>(*mapped, sizeof(Header), header.rows + 1),
                  part<SparseEntry>(*mapped, starts_end, header.entries),
                  part<std::int8_t>(*mapped, columns_end, header.rows),
                  part<std::uint32_t>(*mapped, entries_end, columns),
                  mapped};
  if (checksum(rows) != header.checksum || !is_sound(rows))
    fail(cache, "is corrupt: its checksum does not match; delete it");
  return rows;
}

/// Written aside and renamed, by a name of this process's own: other ranks may do the same.
void write_copy(const fs::path& cache, Header header, const SparseRows& rows) {
  header.columns = rows.columns;
  header.rows = static_cast<std::uint64_t>(rows.rows());
  header.entries = rows.entries.size();
  header.label_values = rows.label_values;
  header.checksum = checksum(rows);
  const fs::path aside = fmt::format("{}.{}.partial", cache.string(), getpid());
  std::FILE* file = std::fopen(aside.c_str(), "wb");
  if (file == nullptr) fail(aside, "cannot write: " + system_reason());
  const auto write = [&](const void* bytes, std::size_t size) {
    return std::fwrite(bytes, 1, size, file) == size;
  };
  const bool whole = write(&header, sizeof header) &&
                     write(rows.starts.data(), rows.starts.size_bytes()) &&
                     write(rows.entries.data(), rows.entries.size_bytes()) &&
                     write(rows.in_file.data(), rows.in_file.size_bytes()) &&
                     write(rows.labels.data(), rows.labels.size_bytes()) &&
                     std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  const std::string reason = system_reason();
  std::fclose(file);
  if (!whole || std::rename(aside.c_str(), cache.c_str()) != 0) {
    const std::string why = whole ? system_reason() : reason;
    std::remove(aside.c_str());
    fail(cache, "cannot write: " + why);
  }
}

}  // namespace

SparseRows read_libsvm_cached(const fs::path& path, const fs::path& cache) {
  const Header stamp = stamp_of(path);
  if (std::optional<SparseRows> rows = map_copy(cache, stamp)) return *std::move(rows);
  write_copy(cache, stamp, read_libsvm(path));
  if (std::optional<SparseRows> rows = map_copy(cache, stamp)) return *std::move(rows);
  fail(path, "changed while it was read; start again");
}

}  // namespace evenstep::kernels
