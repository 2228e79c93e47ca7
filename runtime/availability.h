// How much of its machine a rank can get: arithmetic on what was read at two moments.
#pragma once

#include <optional>
#include <vector>

#include "runtime/control_groups.h"

namespace evenstep {

/// What counters say at one moment. Nothing: not known here.
struct CpuReading {
  std::int64_t time_ns = 0;
  std::int64_t own_ns = 0;               ///< CPU time of this process
  std::optional<std::int64_t> ready_ns;  ///< its threads' time ready to run but on no core
  std::optional<std::int64_t> busy_ns;   ///< of its cores, by anyone
  std::vector<ControlGroups::CpuGroup> groups;
};

/// Cores' worth of CPU time that a process of `threads` threads on `cores` cores could have got
/// between two readings; what it took itself is not taken from it. The least of
///   * what its cores gave: of each thread's time ready to run, the part in which it ran; or, where
///     it hardly wanted to run, what others left
///   * each control group's quota, less what the group's other processes used.
/// 0 where nothing is known, otherwise above 0.
double available_cores(const CpuReading& before, const CpuReading& now, int cores, int threads);

/// MiB that this process can still take: the least of what the machine has available
/// (/proc/meminfo) and what its control groups leave; 0 where nothing is known.
double available_mebibytes(std::string_view meminfo, std::optional<std::int64_t> group_bytes);

}  // namespace evenstep
