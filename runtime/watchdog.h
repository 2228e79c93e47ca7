// No rank can tell from a stalled all-reduce who is missing. So each rank keeps its step and phase
// in memory that the ranks of a node share, and a side thread of each rank looks there once the
// rank has waited for long: the late ones are named, and in the end the job is ended.
//
// Hosts tell each other the same by datagrams (host_exchange.h), only while somebody waits for
// long.
//
// A side thread also counts up while its process runs: who is stopped inside the all-reduce looks
// like everyone else there, but for that count.
#pragma once

#include <memory>
#include <span>

#include "evenstep/session.h"

namespace evenstep {

class Watchdog {
 public:
  /// Collective, blocking. Does nothing where both times are 0, or where there is no shared memory
  /// (said once on standard error).
  Watchdog(Communicator& communicator, std::span<const std::string> hosts,
           const StallOptions& options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// What this rank is at from now on. No system call.
  void computes(std::int64_t step, Phase phase);
  void waits(std::int64_t step);
  void pauses(std::int64_t step);

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;  // null: off
};

}  // namespace evenstep
