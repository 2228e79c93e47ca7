// A file that is written whole or not at all.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace evenstep {

/// Opens at construction, so that a path that cannot be written is known before a long run starts.
/// A summary or trace is written aside and renamed by commit(); a log is written in place, so that
/// it can be followed, and removed again unless something was committed. All throw Error with the
/// path and the system's reason.
class OutputFile {
 public:
  enum class Kind { whole, log };

  OutputFile() = default;  ///< no file: all calls do nothing
  OutputFile(const std::string& path, Kind kind);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  bool is_open() const { return file_ != nullptr; }
  void write(std::string_view text);
  /// Brings what was written to its place, to be kept; more may follow in a log.
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::string written_path_;  // what exists until commit
  std::FILE* file_ = nullptr;
  bool keep_ = false;
};

}  // namespace evenstep
