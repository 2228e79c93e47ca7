#include "runtime/system_text.h"

#include <algorithm>
#include <charconv>

namespace evenstep {
namespace {

constexpr std::string_view blanks = " \t\r\n";

// Cuts the first part off `text`, up to any of `ends`.
std::string_view cut(std::string_view& text, std::string_view ends) {
  const std::size_t end = text.find_first_of(ends);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return cut(text, blanks);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text))
    words.push_back(word);
  return words;
}

bool contains(std::string_view list, std::string_view name) {
  while (!list.empty())
    if (cut(list, ",") == name) return true;
  return false;
}

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

// Blanks in a path are written as \040.
std::string unescaped(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::ranges::all_of(text.substr(i + 1, 3), is_octal)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Lines are number:controllers:path, without controllers for version 2.
std::optional<std::string> group_of(std::string_view cgroup, std::string_view controller) {
  while (!cgroup.empty()) {
    std::string_view line = cut(cgroup, "\n");
    cut(line, ":");
    const std::string_view controllers = cut(line, ":");
    if (!line.starts_with('/')) continue;
    if (controller.empty() ? controllers.empty() : contains(controllers, controller))
      return std::string(line);
  }
  return std::nullopt;
}

struct Mount {
  std::string root;  // the group that is seen at `point`
  std::string point;
};

// Lines are id parent device root point options [tags] - type source super-options.
std::optional<Mount> mount_of(std::string_view mountinfo, std::string_view controller) {
  while (!mountinfo.empty()) {
    const std::vector<std::string_view> words = words_of(cut(mountinfo, "\n"));
    const auto dash = std::ranges::find(words, "-");
    if (words.end() - dash < 4 || dash - words.begin() < 6) continue;
    if (controller.empty() ? dash[1] == "cgroup2"
                           : dash[1] == "cgroup" && contains(dash[3], controller))
      return Mount{unescaped(words[3]), unescaped(words[4])};
  }
  return std::nullopt;
}

// The part of `group` below `root`; nothing if it is not below.
std::optional<std::string> below(const std::string& group, std::string root) {
  if (root.ends_with('/')) root.pop_back();
  if (!group.starts_with(root) || group.starts_with("/..")) return std::nullopt;
  const std::string rest = group.substr(root.size());
  if (!rest.empty() && rest.front() != '/') return std::nullopt;
  return rest == "/" ? "" : rest;
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  return words.size() == 1 ? number(words[0]) : std::nullopt;
}

std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = cut(text, "\n");
    if (next_word(line) == key) return number(next_word(line));
  }
  return std::nullopt;
}

std::optional<std::int64_t> busy_ticks(std::string_view proc_stat, std::span<const int> cores) {
  // user nice system idle iowait irq softirq steal; what guests take is part of user.
  constexpr std::size_t fields = 8;
  constexpr std::size_t idle = 3;
  constexpr std::size_t io_wait = 4;
  std::int64_t sum = 0;
  std::size_t found = 0;
  while (!proc_stat.empty()) {
    std::string_view line = cut(proc_stat, "\n");
    const std::string_view name = next_word(line);
    if (!name.starts_with("cpu")) continue;
    const auto core = number(name.substr(3));
    if (!core || std::ranges::find(cores, *core) == cores.end()) continue;
    for (std::size_t field = 0; field < fields; ++field) {
      const auto ticks = number(next_word(line));
      if (!ticks) return std::nullopt;
      if (field != idle && field != io_wait) sum += *ticks;
    }
    ++found;
  }
  return found == cores.size() && found > 0 ? std::optional(sum) : std::nullopt;
}

std::optional<std::int64_t> ready_ns(std::string_view schedstat) {
  const std::vector<std::string_view> words = words_of(schedstat);
  return words.size() == 3 && number(words[0]) ? number(words[1]) : std::nullopt;
}

std::optional<double> quota_of_cpu_max(std::string_view cpu_max) {
  const std::string_view quota = next_word(cpu_max);
  return quota_of_cfs(quota, cpu_max);
}

std::optional<double> quota_of_cfs(std::string_view quota_us, std::string_view period_us) {
  const auto quota = whole_number(quota_us);  // "max" and -1 are none
  const auto period = whole_number(period_us);
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<GroupPath> find_groups(std::string_view cgroup, std::string_view mountinfo,
                                     std::string_view controller) {
  const auto group = group_of(cgroup, controller);
  const auto mount = mount_of(mountinfo, controller);
  if (!group || !mount) return std::nullopt;
  GroupPath found{mount->point, {}};
  // Inside a container the group's name may be the host's, which is not there: then what is mounted
  // is the container's own.
  std::string path = below(*group, mount->root).value_or("");
  for (; !path.empty(); path.resize(path.rfind('/'))) found.groups.push_back(path);
  found.groups.emplace_back();
  return found;
}

}  // namespace evenstep
