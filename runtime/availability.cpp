#include "runtime/availability.h"

#include <algorithm>

#include "runtime/system_text.h"

namespace evenstep {
namespace {

constexpr double least_cores = 0.01;
// Of the time: a process that wanted less learned little about what it could have had.
constexpr double wanted_enough = 0.1;

// Since `before`; nothing where a counter went back (a thread that ended takes its times along).
std::optional<double> since(std::optional<std::int64_t> before, std::optional<std::int64_t> now) {
  if (!before || !now || *now < *before) return std::nullopt;
  return static_cast<double>(*now - *before);
}

const ControlGroups::CpuGroup* find(const CpuReading& reading, const std::string& name) {
  const auto found =
      std::ranges::find_if(reading.groups, [&](const auto& group) { return group.name == name; });
  return found == reading.groups.end() ? nullptr : &*found;
}

// What others left of `capacity` cores.
double left_by_others(double capacity, double used_ns, double own_ns, double time_ns) {
  return capacity - std::max(0.0, used_ns - own_ns) / time_ns;
}

std::optional<double> given_by_cores(const CpuReading& before, const CpuReading& now, int cores,
                                     int threads) {
  const auto time_ns = static_cast<double>(now.time_ns - before.time_ns);
  const auto own_ns = static_cast<double>(now.own_ns - before.own_ns);
  const int most = std::min(cores, threads);
  if (const auto ready_ns = since(before.ready_ns, now.ready_ns))
    if (const double wanted_ns = own_ns + *ready_ns; wanted_ns >= wanted_enough * time_ns)
      return std::min<double>(most, threads * own_ns / wanted_ns);
  if (const auto busy_ns = since(before.busy_ns, now.busy_ns))
    return std::min<double>(most, left_by_others(cores, *busy_ns, own_ns, time_ns));
  return std::nullopt;
}

double left_by_group(const CpuReading& before, const CpuReading& now,
                     const ControlGroups::CpuGroup& group) {
  const auto* earlier = find(before, group.name);
  const auto used_ns = since(earlier != nullptr ? earlier->used_ns : std::nullopt, group.used_ns);
  if (!used_ns) return group.quota_cores;
  return left_by_others(group.quota_cores, *used_ns,
                        static_cast<double>(now.own_ns - before.own_ns),
                        static_cast<double>(now.time_ns - before.time_ns));
}

}  // namespace

double available_cores(const CpuReading& before, const CpuReading& now, int cores, int threads) {
  if (now.time_ns <= before.time_ns) return 0;
  std::optional<double> least = given_by_cores(before, now, cores, threads);
  for (const auto& group : now.groups) {
    const double left = left_by_group(before, now, group);
    least = std::min(least.value_or(left), left);
  }
  return least ? std::max(least_cores, *least) : 0;
}

double available_mebibytes(std::string_view meminfo, std::optional<std::int64_t> group_bytes) {
  const auto available_kib = number_after(meminfo, "MemAvailable:");
  if (!available_kib && !group_bytes) return 0;
  const std::int64_t host = available_kib ? *available_kib : INT64_MAX;
  const std::int64_t group = group_bytes ? *group_bytes / 1024 : INT64_MAX;
  return static_cast<double>(std::min(host, group)) / 1024;
}

}  // namespace evenstep
