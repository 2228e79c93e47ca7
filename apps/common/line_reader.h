// A text file, line by line, however large it is.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace evenstep {

/// Throws Error with the path and what is wrong, from the constructor for what cannot be opened or
/// is no regular file, from next() where reading fails or a line is longer than `most_bytes`.
class LineReader {
 public:
  LineReader(std::string path, std::size_t most_bytes);

  /// Goes on to the next line that is not blank; false at the end.
  bool next();
  /// Without its end, and without spaces around it; valid until next().
  std::string_view line() const { return trimmed_; }
  const std::string& path() const { return path_; }

  /// Throws Error: path, number of the line, `what`.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  bool read_line();
  bool fill();

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::size_t most_bytes_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> buffer_;
  std::string_view unread_;  // of buffer_
  std::string line_;
  std::string_view trimmed_;
  std::int64_t number_ = 0;
};

std::string_view trim(std::string_view text);

/// Text of a file for an error line: short, printable, in quotes.
std::string in_quotes(std::string_view text);

}  // namespace evenstep
