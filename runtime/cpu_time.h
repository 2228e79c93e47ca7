// CPU time: what a computation takes where others are kept from the core. It holds no MPI time only
// where the code between two readings makes no MPI call.
#pragma once

#include <cstdint>
#include <ctime>

namespace evenstep {

inline std::int64_t cpu_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// CPU time of this process with all its threads.
inline std::int64_t process_cpu_ns() { return cpu_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace evenstep
