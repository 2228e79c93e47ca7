// A rank's own time: from the exit of one step's collective to the entry of the next one's, split
// by phase, without what was spent off the clock.
#pragma once

#include <array>

#include "evenstep/balance.h"
#include "evenstep/clock.h"

namespace evenstep {

class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock) { last_ = exit_ = clock_.now_ns(); }

  /// The time since the last call went into `phase`.
  void lap(Phase phase) {
    const std::int64_t now = clock_.now_ns();
    phase_ns_[static_cast<std::size_t>(phase)] += now - last_;
    last_ = now;
  }
  void pause() { paused_at_ = clock_.now_ns(); }
  void resume() {
    const std::int64_t pause = clock_.now_ns() - paused_at_;
    last_ += pause;
    exit_ += pause;
  }

  /// Ends a rank's own part of the step.
  void enter_collective() {
    entry_ = clock_.now_ns();
    own_ns_ = entry_ - exit_;
    done_phase_ns_ = phase_ns_;
    phase_ns_ = {};
  }
  void leave_collective() {
    last_ = exit_ = clock_.now_ns();
    wait_ns_ = exit_ - entry_;
  }

  std::int64_t own_ns() const { return own_ns_; }
  std::int64_t wait_ns() const { return wait_ns_; }
  const std::array<std::int64_t, phases>& phase_ns() const { return done_phase_ns_; }

 private:
  const Clock& clock_;
  std::int64_t exit_ = 0;
  std::int64_t entry_ = 0;
  std::int64_t last_ = 0;
  std::int64_t paused_at_ = 0;
  std::int64_t own_ns_ = 0;
  std::int64_t wait_ns_ = 0;
  std::array<std::int64_t, phases> phase_ns_{};
  std::array<std::int64_t, phases> done_phase_ns_{};
};

}  // namespace evenstep
