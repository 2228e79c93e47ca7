// What files of /proc and of control groups say: text in, numbers out. Nothing where a text is
// malformed or lacks what is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evenstep {

/// A whole number of at least 0, alone in the text: "123\n".
std::optional<std::int64_t> whole_number(std::string_view text);

/// The first number on the line that begins with the word `key`: "usage_usec 123".
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key);

/// /proc/stat: clock ticks in which any of `cores` was not idle, over all of them since boot.
/// Nothing if one of them is missing.
std::optional<std::int64_t> busy_ticks(std::string_view proc_stat, std::span<const int> cores);

/// /proc/PID/schedstat: nanoseconds in which the thread was ready to run and did not.
std::optional<std::int64_t> ready_ns(std::string_view schedstat);

/// cpu.max of version 2: cores' worth of CPU time; nothing where there is no limit.
std::optional<double> quota_of_cpu_max(std::string_view cpu_max);
/// cpu.cfs_quota_us and cpu.cfs_period_us of version 1, likewise.
std::optional<double> quota_of_cfs(std::string_view quota_us, std::string_view period_us);

/// Where a process's control group and its ancestors are.
struct GroupPath {
  std::string mount;                ///< folder of the outermost one that can be seen
  std::vector<std::string> groups;  ///< below `mount`, innermost first; the last one is ""
};
/// From /proc/self/cgroup and /proc/self/mountinfo: the groups of a controller of version 1 ("cpu",
/// "memory"), or those of version 2 (""). Nothing where it is not mounted.
std::optional<GroupPath> find_groups(std::string_view cgroup, std::string_view mountinfo,
                                     std::string_view controller);

}  // namespace evenstep
