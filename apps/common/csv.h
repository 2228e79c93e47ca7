// Rows of numbers, checked.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/line_reader.h"
#include "lb/cost.h"

namespace evenstep {

/// A CSV file whose first line is `header`. Every error is thrown with file, line, column and
/// value.
class CsvReader {
 public:
  CsvReader(const std::string& path, std::string_view header);

  /// Goes on to the next row, which must have as many fields as the header; false at the end.
  bool next();

  std::int64_t whole(std::size_t column, std::int64_t most) const;
  /// From 0 to `most`.
  double real(std::size_t column, double most) const;
  bool is_empty(std::size_t column) const { return fields_[column].empty(); }
  /// From the columns fixed_seconds, seconds_per_sample and floor_seconds (may be empty), which
  /// begin at `column`. One sample must take at least a nanosecond.
  lb::Cost cost(std::size_t column) const;

  [[noreturn]] void fail(const std::string& what) const { lines_.fail(what); }
  const std::string& path() const { return lines_.path(); }

 private:
  [[noreturn]] void refuse(std::size_t column, const std::string& wanted) const;

  LineReader lines_;
  std::vector<std::string_view> names_;
  std::vector<std::string_view> fields_;
};

/// Times that a trace may hold, in seconds.
inline constexpr double longest_fixed_seconds = 3600;
inline constexpr double longest_sample_seconds = 280;

}  // namespace evenstep
