// Counts the system calls that a thread makes, without rights and without another process: by
// syscall user dispatch (prctl(2), Linux 5.11), where each becomes a signal whose handler counts
// and makes the call. Only on x86-64; elsewhere nothing is counted, and start says so. Slow: for
// what is counted, not for what is timed.
#pragma once

#include <cstdint>

namespace evenstep::system_calls {

/// Of the calling thread, since start.
struct Counts {
  std::int64_t own = 0;
  std::int64_t waiting = 0;    ///< sched_yield, nanosleep: of a wait strategy
  std::int64_t set_aside = 0;  ///< while set_aside was true
  std::int64_t last_own = -1;  ///< number of the last one of `own`, for messages
};

/// Counts the calling thread's calls from now until stop(). False: not possible here.
bool start();
Counts stop();

/// For calls inside a library that are to be told from the program's own.
void set_aside(bool aside);

}  // namespace evenstep::system_calls
