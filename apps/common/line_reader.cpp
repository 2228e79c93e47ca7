#include "common/line_reader.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "evenstep/error.h"

namespace evenstep {
namespace {

constexpr std::size_t buffer_bytes = 1 << 18;
constexpr std::size_t quoted_bytes = 40;

std::string refused(const std::string& path, const char* why) {
  return fmt::format("cannot read {}: {}", path, why);
}

}  // namespace

LineReader::LineReader(std::string path, std::size_t most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes), buffer_(buffer_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  // Files are read more than once, so a pipe would not do.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(refused(path_, std::filesystem::is_directory(status) ? "it is a directory"
                                                                     : "it is no regular file"));
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (!file_) throw Error(refused(path_, std::strerror(errno)));
}

bool LineReader::fill() {
  const std::size_t got = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
  if (got == 0 && std::ferror(file_.get()) != 0) throw Error(refused(path_, std::strerror(errno)));
  unread_ = {buffer_.data(), got};
  return got > 0;
}

bool LineReader::read_line() {
  line_.clear();
  if (unread_.empty() && !fill()) return false;
  ++number_;
  do {
    const std::size_t end = unread_.find('\n');
    line_.append(unread_.substr(0, end));
    if (line_.size() > most_bytes_)
      fail(fmt::format("the line is longer than {} bytes", most_bytes_));
    unread_.remove_prefix(end == std::string_view::npos ? unread_.size() : end + 1);
    if (end != std::string_view::npos) break;
  } while (fill());  // the last line may have no end
  if (line_.find('\0') != std::string::npos) fail("a zero byte; this is no text");
  return true;
}

bool LineReader::next() {
  while (read_line()) {
    trimmed_ = trim(line_);
    if (!trimmed_.empty()) return true;
  }
  return false;
}

void LineReader::fail(const std::string& what) const {
  throw Error(fmt::format("{}:{}: {}", path_, number_, what));
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string in_quotes(std::string_view text) {
  std::string shown(text.substr(0, quoted_bytes));
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return fmt::format("'{}{}'", shown, text.size() > quoted_bytes ? "..." : "");
}

}  // namespace evenstep
