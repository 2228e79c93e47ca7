#include "runtime/probe.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/control_groups.h"

namespace evenstep {

std::vector<int> allowed_cores() {
  // A set of fixed size covers 1,024 cores; larger machines say so with an error.
  std::vector<int> cores;
  for (int limit = CPU_SETSIZE; limit <= 1 << 20; limit *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(limit));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(limit));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int core = 0; known && core < limit; ++core)
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set)) cores.push_back(core);
    CPU_FREE(set);
    if (known) break;
  }
  return cores;
}

std::optional<double> cpu_quota() {
  std::optional<double> least;
  for (const auto& group : ControlGroups().cpu())
    least = std::min(least.value_or(group.quota_cores), group.quota_cores);
  return least;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace evenstep
