#include "common/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "evenstep/error.h"

namespace evenstep {

OutputFile::OutputFile(const std::string& path, Kind kind) : path_(path), written_path_(path) {
  if (path.empty()) return;
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  const bool special = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  if (kind == Kind::whole && !special) written_path_ += ".partial";
  keep_ = special;
  file_ = std::fopen(written_path_.c_str(), "w");
  if (file_ == nullptr) fail();
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (!keep_) std::remove(written_path_.c_str());
}

OutputFile::OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(written_path_, other.written_path_);
  std::swap(file_, other.file_);
  std::swap(keep_, other.keep_);
  return *this;
}

void OutputFile::fail() const {
  throw Error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

void OutputFile::write(std::string_view text) {
  if (file_ != nullptr && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
}

void OutputFile::commit() {
  if (file_ == nullptr) return;
  if (std::fflush(file_) != 0) fail();
  if (keep_) return;
  if (written_path_ != path_) {
    if (fsync(fileno(file_)) != 0) fail();
    if (std::rename(written_path_.c_str(), path_.c_str()) != 0) fail();
    written_path_ = path_;
  }
  keep_ = true;
}

}  // namespace evenstep
