// What the system would give this rank now: CPU, seen beside other processes and within the quotas
// of its control groups (containers, batch jobs), and memory. Feed it to Session::see before each
// end_step, so that shares can follow:
//
//     AvailabilityProbe probe(threads);
//     ... session.see(probe.cpu_cores(), probe.memory_mib());
#pragma once

#include <memory>

namespace evenstep {

class AvailabilityProbe {
 public:
  /// Starts a side thread that looks ten times a second, for memory once a second. `threads`: that
  /// this process computes with; the cores it may use are those of the calling thread. Local.
  explicit AvailabilityProbe(int threads);
  /// Ends the thread.
  ~AvailabilityProbe();
  AvailabilityProbe(const AvailabilityProbe&) = delete;
  AvailabilityProbe& operator=(const AvailabilityProbe&) = delete;

  /// Cores' worth of CPU time that the process could get, over the last fifth of a second; what it
  /// uses itself counts as available. At most `threads`; 0: not known, as at first. No lock, no
  /// system call; any thread.
  double cpu_cores() const;
  /// MiB that the process could still take; 0: not known. Likewise.
  double memory_mib() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenstep
