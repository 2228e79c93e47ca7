// A trace as CSV (design, section 6): read without holding more than one step of it, and written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/csv.h"
#include "common/output_file.h"
#include "lb/trace.h"

namespace evenstep {

inline constexpr const char* trace_header =
    "step,rank,fixed_seconds,seconds_per_sample,floor_seconds,cpu_available,mem_available";

class TraceFile final : public lb::Trace {
 public:
  /// Reads the whole file once, so that what is wrong with it is known before anything runs: throws
  /// Error with file and line.
  explicit TraceFile(const std::string& path);

  int ranks() const override { return static_cast<int>(states_.size()); }
  void next(std::span<lb::RankState> states) override;
  /// The last row's step.
  std::int64_t last_step() const { return last_step_; }

 private:
  struct Row {
    std::int64_t step;
    std::size_t rank;
    lb::RankState state;
  };
  void start();
  void read_row();
  void read_first_step();
  void take_row();

  std::string path_;
  std::optional<CsvReader> csv_;
  std::optional<Row> pending_;  // the next row; none at the end
  std::int64_t step_ = 0;
  std::int64_t last_step_ = 0;
  std::vector<lb::RankState> states_;
  std::vector<std::int64_t> row_steps_;  // of each rank's last row
};

/// Passes a trace on, and writes its first `steps` steps.
class TraceWriter final : public lb::Trace {
 public:
  TraceWriter(std::unique_ptr<lb::Trace> source, const std::string& path, std::int64_t steps);

  int ranks() const override { return source_->ranks(); }
  void next(std::span<lb::RankState> states) override;

 private:
  void write(std::span<const lb::RankState> states);

  std::unique_ptr<lb::Trace> source_;
  OutputFile file_;
  std::int64_t steps_;
  std::int64_t step_ = 0;
  std::vector<lb::RankState> before_;
};

}  // namespace evenstep
