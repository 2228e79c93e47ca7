#include "runtime/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "runtime/system_text.h"

namespace evenstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* version_2 = "";

std::optional<double> quota(const fs::path& folder, bool is_version_2) {
  if (is_version_2) return quota_of_cpu_max(text_of(folder / "cpu.max"));
  return quota_of_cfs(text_of(folder / "cpu.cfs_quota_us"), text_of(folder / "cpu.cfs_period_us"));
}

std::optional<std::int64_t> used_ns(const fs::path& folder, bool is_version_2) {
  if (!is_version_2) return whole_number(text_of(folder / "cpuacct.usage"));
  const auto used_us = number_after(text_of(folder / "cpu.stat"), "usage_usec");
  return used_us ? std::optional(*used_us * 1000) : std::nullopt;
}

std::optional<std::int64_t> free_bytes_of(const fs::path& folder, bool is_version_2) {
  const auto number = [&](const char* name) { return whole_number(text_of(folder / name)); };
  const auto limit = number(is_version_2 ? "memory.max" : "memory.limit_in_bytes");
  const auto used = number(is_version_2 ? "memory.current" : "memory.usage_in_bytes");
  if (!limit || !used) return std::nullopt;
  const auto cache = number_after(text_of(folder / "memory.stat"),
                                  is_version_2 ? "inactive_file" : "total_inactive_file");
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - cache.value_or(0)));
}

}  // namespace

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

ControlGroups::ControlGroups(fs::path root) : root_(std::move(root)) {
  find(version_2, version_2, cpu_);
  find("cpu", "cpuacct", cpu_);
  find(version_2, version_2, memory_);
  find("memory", "memory", memory_);
}

void ControlGroups::find(const char* controller, const char* use_controller,
                         std::vector<Folders>& found) const {
  const std::string cgroup = text_of(root_ / "proc/self/cgroup");
  const std::string mountinfo = text_of(root_ / "proc/self/mountinfo");
  const auto limits = find_groups(cgroup, mountinfo, controller);
  const auto uses = find_groups(cgroup, mountinfo, use_controller);
  if (!limits) return;
  const auto folder = [&](const std::string& mount, const std::string& group) {
    return root_ / fs::path(mount + group).relative_path();
  };
  for (const std::string& group : limits->groups) {
    const bool known = uses && std::ranges::find(uses->groups, group) != uses->groups.end();
    found.push_back({group, folder(limits->mount, group),
                     known ? folder(uses->mount, group) : fs::path(), controller == version_2});
  }
}

std::vector<ControlGroups::CpuGroup> ControlGroups::cpu() const {
  std::vector<CpuGroup> groups;
  for (const Folders& folders : cpu_)
    if (const auto cores = quota(folders.limit, folders.version_2))
      groups.push_back({folders.name, *cores, used_ns(folders.use, folders.version_2)});
  return groups;
}

std::optional<std::int64_t> ControlGroups::free_bytes() const {
  std::optional<std::int64_t> least;
  for (const Folders& folders : memory_)
    if (const auto bytes = free_bytes_of(folders.limit, folders.version_2))
      least = least ? std::min(*least, *bytes) : *bytes;
  return least;
}

}  // namespace evenstep
