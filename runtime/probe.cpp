#include "runtime/probe.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace evenstep {
namespace {

namespace fs = std::filesystem;

void keep_least(std::optional<double>& least, double value) {
  least = least ? std::min(*least, value) : value;
}

// Version 2: "max 100000" or "50000 100000".
void read_v2(const fs::path& group, std::optional<double>& least) {
  std::string quota;
  double period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period && quota != "max" && period > 0)
    keep_least(least, std::stod(quota) / period);
}

// Version 1: -1 where there is no limit.
void read_v1(const fs::path& group, std::optional<double>& least) {
  double quota = -1;
  double period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  if (quota > 0 && period > 0) keep_least(least, quota / period);
}

// The group and its parents up to the mount point. Inside a container the path may be the host's,
// which is not there: the mount point itself is then the container's group.
template <typename Read>
void read_upwards(const fs::path& mount, fs::path group, Read read, std::optional<double>& least) {
  for (; group.has_relative_path(); group = group.parent_path())
    read(mount / group.relative_path(), least);
  read(mount, least);
}

}  // namespace

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
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);  // number:controllers:path
    std::string number;
    std::string controllers;
    std::string path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (controllers.empty()) {
      read_upwards("/sys/fs/cgroup", path, read_v2, least);
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      read_upwards("/sys/fs/cgroup/cpu", path, read_v1, least);
      read_upwards("/sys/fs/cgroup/" + controllers, path, read_v1, least);
    }
  }
  return least;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace evenstep
