// Limits and use of the control groups that this process is in, version 1 or 2, nested ones too: a
// group can use no more than each of its ancestors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace evenstep {

/// A file's text; empty where it cannot be read.
std::string text_of(const std::filesystem::path& file);

class ControlGroups {
 public:
  /// `root` holds proc/ and what is mounted; tests have one of their own.
  explicit ControlGroups(std::filesystem::path root = "/");

  struct CpuGroup {
    std::string name;
    double quota_cores;
    std::optional<std::int64_t> used_ns;  ///< by all its processes since it was made
  };
  /// The groups that have a quota now, innermost first.
  std::vector<CpuGroup> cpu() const;

  /// Bytes that the tightest group leaves: its limit less what it uses, page cache that can be
  /// dropped not counted. Nothing where there is no limit.
  std::optional<std::int64_t> free_bytes() const;

 private:
  // Folders of one group, where its limits are and where its use is (apart in version 1).
  struct Folders {
    std::string name;
    std::filesystem::path limit;
    std::filesystem::path use;
    bool version_2;
  };
  void find(const char* controller, const char* use_controller, std::vector<Folders>& found) const;

  std::filesystem::path root_;
  std::vector<Folders> cpu_;
  std::vector<Folders> memory_;
};

}  // namespace evenstep
