// --log: one JSON object a step, and --timeline: a trace of all ranks' phases.
#pragma once

#include <string>
#include <vector>

#include "common/output_file.h"
#include "evenstep/session.h"

namespace evenstep::train {

/// Writes a step's line one step later, since the time that ranks waited in its collective is news
/// of the next one. Rank 0 only.
class StepLog {
 public:
  explicit StepLog(OutputFile file) : file_(std::move(file)) {}

  /// After each step.
  void add(const Session& session, const StepResult& result, std::int64_t step);
  /// After the last one; `wait_ns` by rank.
  void finish(std::span<const std::int64_t> wait_ns);

 private:
  void write_pending(const std::vector<double>& wait_seconds);

  struct Step {
    std::int64_t number = -1;
    std::vector<std::int64_t> shares;
    std::vector<double> own_seconds;
    std::vector<double> cpu_available;  // as seen just before the step
    double step_seconds = 0;
    double loss = 0;
    const char* decision = "";
  };
  OutputFile file_;
  Step pending_;
  std::vector<double> seen_;  // cores available before the next step, by rank
};

/// Every rank collects its own spans; rank 0 writes them all at the end, in the trace event format
/// that chrome://tracing and Perfetto read. Phases of one step are drawn one after the other,
/// although chunks mix them.
class Timeline {
 public:
  Timeline(bool wanted, std::int64_t expected_steps);
  void add(const Session& session);
  /// Collective, blocking.
  void write(Communicator& communicator, OutputFile& file) const;

 private:
  bool wanted_;
  std::vector<std::int64_t> spans_ns_;  // by step: update, load, forward, backward, wait
};

}  // namespace evenstep::train
