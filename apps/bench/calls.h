// What a stretch of this rank's steps calls and allocates.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/bench.h"

namespace evenstep::bench {

/// Of this thread, with operator new.
struct Allocations {
  bool counting = false;
  std::int64_t own = 0;
  std::int64_t in_onednn = 0;
};
extern thread_local Allocations allocations;

/// Each a step, in JSON; system calls null where they cannot be counted. Runs `steps` twice:
/// counting system calls slows them down, and nothing else must be counted in that time.
Json count_calls(int count, const std::function<void(int steps)>& steps);

}  // namespace evenstep::bench
