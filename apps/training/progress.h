// What a person watching sees while a job runs, on rank 0's standard error.
#pragma once

#include <cstdint>
#include <string>

#include "evenstep/session.h"
#include "training/statistics.h"

namespace evenstep::train {

/// A line that renews itself a few times a second if standard error is a terminal (scripts/mpirun
/// says so through EVENSTEP_PROGRESS=1, since mpirun hides it); otherwise nothing.
class Progress {
 public:
  Progress(bool is_rank_0, std::int64_t total_steps);
  ~Progress();

  void show(const Session& session, const StepResult& result, const Statistics& statistics);
  /// Wipes the line, so that others can print.
  void clear();

 private:
  bool live_;
  std::int64_t total_steps_;
  std::int64_t next_ns_ = 0;
  bool shown_ = false;
};

}  // namespace evenstep::train
