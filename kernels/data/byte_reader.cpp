#include "kernels/data/byte_reader.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

namespace evenstep::kernels {
namespace {

constexpr std::size_t buffer_bytes = 65536;

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

}  // namespace

void ByteReader::EndInflate::operator()(z_stream_s* stream) const {
  inflateEnd(stream);
  delete stream;
}

ByteReader::ByteReader(std::filesystem::path path) : path_(std::move(path)), buffer_(buffer_bytes) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error)) {
    fail(error ? error.message() : "not a regular file; a data file was expected");
  }
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (!file_) fail(std::generic_category().message(errno));
  refill();
  if (is_gzip(input_)) start_inflate();
}

void ByteReader::fail(std::string_view what) const {
  throw DataError(fmt::format("{}: {}", path_.string(), what));
}

void ByteReader::start_inflate() {
  inflate_.reset(new z_stream_s{});
  constexpr int gzip_header = 16;
  if (inflateInit2(inflate_.get(), gzip_header + MAX_WBITS) != Z_OK) {
    fail("zlib could not start decompression (out of memory?)");
  }
}

void ByteReader::refill() {
  if (!input_.empty()) return;
  const std::size_t got = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
  if (std::ferror(file_.get())) {
    fail(fmt::format("cannot read at byte {}: {}", file_position_,
                     std::generic_category().message(errno)));
  }
  input_ = std::span(buffer_).first(got);
  file_position_ += got;
}

std::size_t ByteReader::read(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size() && !ended_) {
    const auto rest = out.subspan(done);
    done += inflate_ ? inflate_some(rest) : copy_some(rest);
  }
  position_ += done;
  return done;
}

std::size_t ByteReader::copy_some(std::span<std::uint8_t> out) {
  refill();
  ended_ = input_.empty();
  const std::size_t count = std::min(out.size(), input_.size());
  std::copy_n(input_.begin(), count, out.begin());
  input_ = input_.subspan(count);
  return count;
}

std::size_t ByteReader::inflate_some(std::span<std::uint8_t> out) {
  refill();
  if (input_.empty()) {
    fail(fmt::format("the compressed data end early, at byte {} of the file; download it again",
                     file_position_));
  }
  const auto limit = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
  inflate_->next_in = const_cast<std::uint8_t*>(input_.data());  // zlib only reads it
  inflate_->avail_in = static_cast<uInt>(input_.size());
  inflate_->next_out = out.data();
  inflate_->avail_out = limit;
  const int code = inflate(inflate_.get(), Z_NO_FLUSH);
  input_ = input_.last(inflate_->avail_in);
  if (code != Z_OK && code != Z_STREAM_END) {
    fail(fmt::format("corrupt gzip data near byte {} of the file ({}); download it again",
                     file_position_ - input_.size(), inflate_->msg ? inflate_->msg : zError(code)));
  }
  if (code == Z_STREAM_END) next_member();
  return limit - inflate_->avail_out;
}

/// A gzip file may hold several compressed pieces, one after the other.
void ByteReader::next_member() {
  refill();
  ended_ = input_.empty();
  if (ended_) return;
  const std::uint64_t at = file_position_ - input_.size();
  // A piece's first byte may be the last one in the buffer; zlib then checks the second.
  const bool member = input_[0] == 0x1f && (input_.size() == 1 || is_gzip(input_));
  if (!member) {
    fail(
        fmt::format("bytes that are not gzip data follow the end of the compressed data, at byte "
                    "{} of the file; download it again",
                    at));
  }
  inflateReset(inflate_.get());
}

}  // namespace evenstep::kernels
