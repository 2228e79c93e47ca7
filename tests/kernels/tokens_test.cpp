// Texts and token files: good ones, and every way in which a file can be bad.
#include "kernels/data/tokens.h"

#include <zlib.h>

#include "tests/kernels/data_files.h"

namespace evenstep::kernels::test {
namespace {

namespace fs = std::filesystem;
using Kind = TokenFile::Kind;

std::vector<std::int32_t> all_of(const TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

std::string failure(const fs::path& path, Kind kind, std::int64_t vocabulary) {
  return failure_of([&] { TokenFile(path, kind, vocabulary); });
}

TEST_CASE("a text is its bytes, whatever they are, plain and gzipped") {
  const Directory directory;
  const Bytes bytes = {'a', 0, '\r', '\n', 255, 'z'};
  directory.write("text", bytes);
  directory.write("text.gz", gzip(bytes));
  for (const char* name : {"text", "text.gz"}) {
    const TokenFile file(directory / name, Kind::text, 256);
    CHECK(all_of(file) == std::vector<std::int32_t>(bytes.begin(), bytes.end()));
    CHECK(file.checksum() == crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
    std::vector<std::int32_t> middle(2);
    file.read(3, middle);
    CHECK(middle == std::vector<std::int32_t>{'\n', 255});
  }
}

TEST_CASE("uint16 tokens are little-endian; one may look like gzip's magic") {
  const Directory directory;
  directory.write("tokens", {0x1f, 0x8b, 1, 0, 0xff, 0xff});
  CHECK(all_of(TokenFile(directory / "tokens", Kind::uint16, 65536)) ==
        std::vector<std::int32_t>{0x8b1f, 1, 65535});
}

TEST_CASE("bad files") {
  const Directory directory;
  directory.write("empty", {});
  directory.write("odd", {1, 0, 2});
  directory.write("high", {1, 0, 0x51, 0xc3, 3, 0});
  Bytes garbage = gzip({1, 0});
  garbage.push_back(1);
  directory.write("garbage.gz", garbage);
  directory.write("none.gz", {1, 2, 3});
  for (Kind kind : {Kind::text, Kind::uint16}) {
    check_says(failure(directory / "empty", kind, 256), {"empty", "is empty"});
    check_says(failure(directory, kind, 256), {"not a regular file"});
    check_says(failure(directory / "missing", kind, 256), {"missing", "No such file"});
    check_says(failure(directory / "garbage.gz", kind, 256), {"follow the end"});
  }
  check_says(failure(directory / "odd", Kind::uint16, 256), {"3 bytes", "odd"});
  check_says(failure(directory / "high", Kind::uint16, 50000),
             {"token 50001 at byte 2", "0 to 49999"});
  CHECK(failure(directory / "high", Kind::uint16, 50002).empty());
  check_says(failure(directory / "odd", Kind::text, 255), {"256", "255"});
}

TEST_CASE("damaged files are read or refused, never more") {
  std::mt19937 random = new_random();
  const Directory directory;
  Bytes bytes;
  for (int i = 0; i < 400; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 2 == 0 ? i : 0));
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const char* name = random() % 2 == 0 ? "tokens" : "tokens.gz";
    const bool gzipped = std::string(name) != "tokens";
    directory.write(name, damage(gzipped ? gzip(bytes) : bytes, random));
    refused += failure_of([&] {
                 for (std::int32_t token : all_of(TokenFile(directory / name, Kind::uint16, 256)))
                   REQUIRE(token < 256);
               }).empty()
                   ? 0
                   : 1;
  }
  CHECK(refused > 300);
}

}  // namespace
}  // namespace evenstep::kernels::test
