// Slows this rank down on request: --emulate makes an equal machine unequal, --inject delays one
// phase of chosen steps.
#pragma once

#include <cstdint>
#include <functional>

#include "evenstep/session.h"
#include "training/options.h"

namespace evenstep::train {

class Slowdown {
 public:
  /// `loader_cpu_ns`: CPU time, so far, of threads whose work is not slowed down.
  Slowdown(const Options& options, int rank, std::function<std::int64_t()> loader_cpu_ns);

  /// Around each chunk's computation: the second call sleeps (1/speed - 1) times the CPU time that
  /// the process, with all its threads but the loader, spent in between.
  void begin_chunk();
  void end_chunk();
  /// Around calls of MPI in between: what they spend does not count.
  void pause();
  void resume();

  /// Sleeps as long as --inject says for this phase of this step.
  void inject(Phase phase, std::int64_t step) const;

 private:
  std::int64_t cpu_ns() const;

  std::function<std::int64_t()> loader_cpu_ns_;
  double sleep_per_cpu_ = 0;  // 0: this rank runs at full speed
  std::int64_t cpu_start_ns_ = 0;
  std::int64_t cpu_pause_ns_ = 0;
  std::int64_t owed_ns_ = 0;  // below 0: the last sleep was too long by as much
  std::vector<Injection> injections_;
};

}  // namespace evenstep::train
