// A rank's own time: from the exit of one step's last collective to the entry of the next one's,
// split by phase, without what was spent off the clock or inside the communication library: sums
// that are started or moved along during backward are waiting, not work.
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
  void resume() { leave_out(clock_.now_ns() - paused_at_); }

  /// Around calls of the communication library before enter_collective.
  void begin_call() { call_at_ = clock_.now_ns(); }
  void end_call() {
    const std::int64_t call_ns = clock_.now_ns() - call_at_;
    leave_out(call_ns);
    calls_ns_ += call_ns;
  }

  /// So much of the time inside the collective is not waiting, but this rank's own: it becomes
  /// part of the next step's. Before leave_collective.
  void charge(std::int64_t ns) { held_up_ns_ += ns; }

  /// Ends a rank's own part of the step.
  void enter_collective() {
    entry_ = clock_.now_ns();
    own_ns_ = entry_ - exit_;
    done_phase_ns_ = phase_ns_;
    phase_ns_ = {};
  }
  void leave_collective() {
    last_ = exit_ = clock_.now_ns() - held_up_ns_;
    wait_ns_ = exit_ - entry_ + calls_ns_;
    calls_ns_ = held_up_ns_ = 0;
  }

  std::int64_t own_ns() const { return own_ns_; }
  /// Inside the last step's collectives, from start to end.
  std::int64_t wait_ns() const { return wait_ns_; }
  const std::array<std::int64_t, phases>& phase_ns() const { return done_phase_ns_; }

 private:
  void leave_out(std::int64_t ns) {
    last_ += ns;
    exit_ += ns;
  }

  const Clock& clock_;
  std::int64_t exit_ = 0;
  std::int64_t entry_ = 0;
  std::int64_t last_ = 0;
  std::int64_t paused_at_ = 0;
  std::int64_t call_at_ = 0;
  std::int64_t calls_ns_ = 0;
  std::int64_t held_up_ns_ = 0;
  std::int64_t own_ns_ = 0;
  std::int64_t wait_ns_ = 0;
  std::array<std::int64_t, phases> phase_ns_{};
  std::array<std::int64_t, phases> done_phase_ns_{};
};

}  // namespace evenstep
