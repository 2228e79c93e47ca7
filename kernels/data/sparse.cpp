#include "kernels/data/sparse.h"

#include <zlib.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace evenstep::kernels {
namespace {

template <typename T>
uLong add(uLong sum, std::span<const T> values) {
  return crc32_z(sum, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes());
}

}  // namespace

std::vector<std::uint32_t> number_by_frequency(std::int64_t columns,
                                               std::span<const std::uint64_t> starts,
                                               std::span<SparseEntry> entries) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(columns));
  for (const SparseEntry& entry : entries) ++counts[entry.column];
  std::vector<std::uint32_t> in_file(counts.size());
  std::iota(in_file.begin(), in_file.end(), 0U);
  std::ranges::stable_sort(in_file, std::greater(), [&](std::uint32_t c) { return counts[c]; });
  number_alike(in_file, starts, entries);
  return in_file;
}

void number_alike(std::span<const std::uint32_t> in_file, std::span<const std::uint64_t> starts,
                  std::span<SparseEntry> entries) {
  std::vector<std::uint32_t> number_of(in_file.size());
  for (std::size_t i = 0; i < in_file.size(); ++i)
    number_of[in_file[i]] = static_cast<std::uint32_t>(i);
  for (SparseEntry& entry : entries) entry.column = number_of[entry.column];
  for (std::size_t row = 0; row + 1 < starts.size(); ++row)
    std::ranges::sort(entries.subspan(starts[row], starts[row + 1] - starts[row]), {},
                      &SparseEntry::column);
}

std::uint32_t checksum(const SparseRows& rows) {
  uLong sum = add(0, std::span(&rows.columns, 1));
  sum = add(sum, std::span<const double>(rows.label_values));
  sum = add(sum, rows.starts);
  sum = add(sum, rows.entries);
  sum = add(sum, rows.in_file);
  return static_cast<std::uint32_t>(add(sum, rows.labels));
}

}  // namespace evenstep::kernels
