// Sparse rows with two kinds of labels, in memory or in a mapped file.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace evenstep::kernels {

struct SparseEntry {
  std::uint32_t column = 0;
  float value = 0;
};

/// A matrix, row by row. Copies share the storage. Columns are numbered by their entries, the most
/// first: real data have a few columns in most rows, whose weights then lie in a few cache lines.
struct SparseRows {
  std::int64_t columns = 0;               ///< every entry's column is below it
  std::array<double, 2> label_values{};   ///< in the file: the lower (here -1), the upper (1)
  std::span<const std::uint64_t> starts;  ///< rows + 1: where each row's entries begin
  std::span<const SparseEntry> entries;   ///< columns ascend within a row: none is there twice
  std::span<const std::int8_t> labels;    ///< -1 or 1
  std::span<const std::uint32_t> in_file =
      {};  ///< of a training set, by column: its number in the file
  std::shared_ptr<const void> storage = {};  ///< keeps the spans alive

  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }
  std::span<const SparseEntry> row(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return entries.subspan(starts[i], starts[i + 1] - starts[i]);
  }
};

/// Numbers columns below `columns` anew by how many of the entries they have, the most first, and
/// sorts each row. Returns the old numbers by the new ones.
std::vector<std::uint32_t> number_by_frequency(std::int64_t columns,
                                               std::span<const std::uint64_t> starts,
                                               std::span<SparseEntry> entries);

/// Numbers columns by `in_file`, as number_by_frequency returned it for other rows.
void number_alike(std::span<const std::uint32_t> in_file, std::span<const std::uint64_t> starts,
                  std::span<SparseEntry> entries);

/// crc32 of all that is in the rows.
std::uint32_t checksum(const SparseRows& rows);

}  // namespace evenstep::kernels
