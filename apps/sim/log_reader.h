// The steps of a log, checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/line_reader.h"

namespace evenstep::sim {

/// Reads JSON lines with step, shares and own_seconds. Throws Error with file and line.
class LogReader {
 public:
  explicit LogReader(const std::string& path);

  /// Goes on to the next step; false at the end.
  bool next();
  /// By rank; as many in every step.
  const std::vector<double>& shares() const { return shares_; }
  const std::vector<double>& own_seconds() const { return own_seconds_; }

  [[noreturn]] void fail(const std::string& what) const { lines_.fail(what); }

 private:
  void check_ranks(std::size_t ranks_before) const;

  LineReader lines_;
  std::int64_t step_ = -1;
  std::vector<double> shares_;
  std::vector<double> own_seconds_;
};

}  // namespace evenstep::sim
