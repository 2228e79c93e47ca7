// Slows this rank down on request: --emulate makes an equal machine unequal, --inject delays one
// phase of chosen steps.
#pragma once

#include <cstdint>

#include "evenstep/session.h"
#include "train/options.h"

namespace evenstep::train {

class Slowdown {
 public:
  Slowdown(const Options& options, int rank);

  /// Around each chunk's computation: the second call sleeps (1/speed - 1) times the CPU time that
  /// the process, with all its threads, spent in between.
  void begin_chunk();
  void end_chunk();
  /// Around calls of MPI in between: what they spend does not count.
  void pause();
  void resume();

  /// Sleeps as long as --inject says for this phase of this step.
  void inject(Phase phase, std::int64_t step) const;

 private:
  double sleep_per_cpu_ = 0;  // 0: this rank runs at full speed
  std::int64_t cpu_start_ns_ = 0;
  std::int64_t cpu_pause_ns_ = 0;
  std::int64_t owed_ns_ = 0;  // below 0: the last sleep was too long by as much
  std::vector<Injection> injections_;
};

}  // namespace evenstep::train
