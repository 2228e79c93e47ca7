#include "kernels/data/tokens.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "kernels/data/byte_reader.h"
#include "kernels/data/mapped_file.h"

namespace evenstep::kernels {
namespace {

constexpr std::size_t piece_bytes = 1 << 20;

std::size_t bytes_of(TokenFile::Kind kind) { return kind == TokenFile::Kind::uint16 ? 2 : 1; }

std::vector<std::uint8_t> read_all(const std::filesystem::path& path) {
  ByteReader reader(path);
  std::vector<std::uint8_t> bytes;
  for (std::size_t got = piece_bytes; got == piece_bytes;) {
    bytes.resize(bytes.size() + piece_bytes);
    got = reader.read(std::span(bytes).last(piece_bytes));
    bytes.resize(bytes.size() - piece_bytes + got);
  }
  return bytes;
}

std::int32_t uint16_at(std::span<const std::uint8_t> bytes, std::size_t token) {
  return bytes[2 * token] | bytes[2 * token + 1] << 8;
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, Kind kind, std::int64_t vocabulary)
    : kind_(kind) {
  const auto fail = [&](const std::string& what) {
    throw DataError(fmt::format("{}: {}", path.string(), what));
  };
  if (path.extension() == ".gz") {
    const auto whole = std::make_shared<const std::vector<std::uint8_t>>(read_all(path));
    bytes_ = *whole;
    storage_ = whole;
  } else {
    const auto mapped = std::make_shared<const MappedFile>(path);
    bytes_ = mapped->bytes();
    storage_ = mapped;
    mapped_ = true;
  }
  const std::size_t token_bytes = bytes_of(kind);
  if (bytes_.empty()) fail("is empty; tokens were expected");
  if (bytes_.size() % token_bytes != 0)
    fail(
        fmt::format("has {} bytes, an odd number; tokens of 2 bytes were expected", bytes_.size()));
  size_ = static_cast<std::int64_t>(bytes_.size() / token_bytes);
  if (kind == Kind::text && vocabulary < 256)
    fail(fmt::format("is a text, whose bytes need a vocabulary of 256; it is {}", vocabulary));
  for (std::int64_t token = 0; kind == Kind::uint16 && token < size_; ++token) {
    const std::int32_t value = uint16_at(bytes_, static_cast<std::size_t>(token));
    if (value >= vocabulary)
      fail(fmt::format("token {} at byte {}, 0 to {} was expected: the vocabulary has {}", value,
                       2 * token, vocabulary - 1, vocabulary));
  }
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> out) const {
  const auto start = static_cast<std::size_t>(first);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = kind_ == Kind::text ? bytes_[start + i] : uint16_at(bytes_, start + i);
}

void TokenFile::page_in(std::int64_t first, std::int64_t count) const {
  const std::size_t token_bytes = bytes_of(kind_);
  kernels::page_in(bytes_.subspan(static_cast<std::size_t>(first) * token_bytes,
                                  static_cast<std::size_t>(count) * token_bytes));
}

std::uint32_t TokenFile::checksum() const {
  return static_cast<std::uint32_t>(crc32_z(0, bytes_.data(), bytes_.size()));
}

}  // namespace evenstep::kernels
