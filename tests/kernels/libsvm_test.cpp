// LIBSVM text: what the format allows, and every way in which a file can be bad; its binary copy.
#include "kernels/data/libsvm.h"

#include <cstring>

#include "tests/kernels/data_files.h"

namespace evenstep::kernels::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* good = "+1 1:0.5 3:-2\n-1 2:1e-3\n-1\n+1 4:7\n";

SparseRows read_text(const std::string& text) {
  const Directory directory;
  directory.write("rows", bytes_of(text));
  return read_libsvm(directory / "rows");
}

std::string failure(const std::string& text) {
  return failure_of([&] { read_text(text); });
}

void check_good(const SparseRows& rows) {
  CHECK(rows.columns == 4);
  CHECK(rows.label_values == std::array<double, 2>{-1, 1});
  REQUIRE(rows.rows() == 4);
  CHECK(std::vector<int>(rows.labels.begin(), rows.labels.end()) == std::vector<int>{1, -1, -1, 1});
  REQUIRE(rows.row(0).size() == 2);
  CHECK(rows.row(0)[1].column == 2);
  CHECK(rows.row(0)[1].value == -2);
  CHECK(rows.row(1)[0].value == 1e-3F);
  CHECK(rows.row(2).empty());
  CHECK(rows.row(3)[0].column == 3);
}

TEST_CASE("what the format allows") {
  check_good(read_text(good));
  check_good(read_text("+1 1:0.5 3:-2\r\n-1 2:1e-3\r\n-1\r\n+1 4:7\r\n"));
  check_good(read_text("\n# a comment\n1.0\t1:+.5 3:-2.0   # more\n \n-1 2:.001 \n-1\n+1 4:7"));
  const Directory directory;
  directory.write("rows.gz", gzip(bytes_of(good)));
  check_good(read_libsvm(directory / "rows.gz"));
}

TEST_CASE("any two labels; the higher is the positive one") {
  const SparseRows rows = read_text("2 1:1\n1 1:1\n2 7:1\n");
  CHECK(rows.label_values == std::array<double, 2>{1, 2});
  CHECK(std::vector<int>(rows.labels.begin(), rows.labels.end()) == std::vector<int>{1, -1, 1});
  CHECK(rows.columns == 7);
}

TEST_CASE("a test set has its training set's labels and columns") {
  const SparseRows training = read_text(good);
  const Directory directory;
  directory.write("test", bytes_of("-1 1:1 4:2 5:3 900000:4\n"));
  const SparseRows rows = read_libsvm_test(directory / "test", training);
  CHECK(rows.columns == 4);
  CHECK(rows.labels[0] == -1);
  REQUIRE(rows.row(0).size() == 2);
  CHECK(rows.row(0)[1].value == 2);
  directory.write("test", bytes_of("-1 1:1\n2 1:1\n"));
  check_says(failure_of([&] { read_libsvm_test(directory / "test", training); }),
             {"test: line 2", "'2'", "-1 or 1"});
}

TEST_CASE("columns are numbered by their entries, those of a test set alike, also in the copy") {
  const Directory directory;
  directory.write("rows", bytes_of("+1 1:1 5:5\n-1 5:6\n+1 2:3 5:7\n"));
  directory.write("test", bytes_of("-1 1:9 4:8 5:7 6:1\n"));
  const auto cached = [&] { return read_libsvm_cached(directory / "rows", directory / "copy"); };
  for (const SparseRows& rows : {read_libsvm(directory / "rows"), cached(), cached()}) {
    CHECK(rows.columns == 5);
    CHECK(std::vector<std::uint32_t>(rows.in_file.begin(), rows.in_file.end()) ==
          std::vector<std::uint32_t>{4, 0, 1, 2, 3});
    REQUIRE(rows.row(0).size() == 2);
    CHECK(rows.row(0)[0].column == 0);
    CHECK(rows.row(0)[0].value == 5);
    CHECK(rows.row(0)[1].column == 1);
    CHECK(rows.row(0)[1].value == 1);
    CHECK(rows.row(2)[1].column == 2);
    CHECK(rows.row(2)[1].value == 3);
    const SparseRows test = read_libsvm_test(directory / "test", rows);
    REQUIRE(test.row(0).size() == 3);
    const std::uint32_t columns[] = {0, 1, 4};
    const float values[] = {7, 9, 8};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(test.row(0)[i].column == columns[i]);
      CHECK(test.row(0)[i].value == values[i]);
    }
  }
}

TEST_CASE("bad rows name file, line, what is there and what was expected") {
  check_says(failure("+1 1:1\n-1 0:1\n"), {"rows: line 2", "'0:1'", "from 1"});
  check_says(failure("+1 1:1\n\n-1 3:1 2:1\n"), {"line 3", "index 2 comes after 3", "ascend"});
  check_says(failure("+1 1:1 1:2\n"), {"line 1", "index 1 comes after 1"});
  check_says(failure("+1 -1:1\n"), {"line 1", "'-1:1'"});
  check_says(failure("+1 4294967296:1\n"), {"'4294967296:1'", "4294967295"});
  check_says(failure("+1 99999999999999999999:1\n"), {"99999999999999999999"});
  check_says(failure("+1 1.5:1\n"), {"'1.5:1'", "whole number"});
  for (const char* value :
       {"nan", "NaN", "inf", "-inf", "1e39", "1e999", "x", "", "1x", "0x1", "+-1"})
    check_says(failure(fmt::format("+1 7:{}\n", value)),
               {"line 1", fmt::format("'7:{}'", value).c_str(), "float"});
  check_says(failure("+1 5\n"), {"line 1", "'5'", "index:value"});
  check_says(failure("+1 5: 3\n"), {"line 1", "'5:'"});
  check_says(failure("nan 1:1\n"), {"line 1", "label is 'nan'"});
  check_says(failure("yes 1:1\n"), {"label is 'yes'"});
  check_says(failure("1:1 2:1\n"), {"label is '1:1'"});
  check_says(failure("1 1:1\n2 1:1\n1 2:1\n3 1:1\n"), {"line 4", "'3'", "1 or 2"});
  check_says(failure(std::string("+1 \x01\x7f:1\n")), {"'??:1'"});
}

TEST_CASE("files without what is needed") {
  check_says(failure(""), {"rows", "has no rows"});
  check_says(failure("\n \r\n# nothing\n"), {"has no rows"});
  check_says(failure("1 1:1\n1 2:1\n"), {"the label 1", "two different"});
  check_says(failure_of([] { read_libsvm("/nonexistent/place"); }), {"/nonexistent/place"});
  const Directory directory;
  check_says(failure_of([&] { read_libsvm(directory); }), {"not a regular file"});
  Bytes garbage = gzip(bytes_of(good));
  garbage.push_back(7);
  directory.write("rows.gz", garbage);
  check_says(failure_of([&] { read_libsvm(directory / "rows.gz"); }), {"rows.gz", "not gzip data"});
  Bytes cut = gzip(bytes_of(good));
  cut.resize(cut.size() - 5);
  directory.write("rows.gz", cut);
  check_says(failure_of([&] { read_libsvm(directory / "rows.gz"); }), {"end early"});
}

TEST_CASE("lines longer than the buffer") {
  std::string text = "1";
  for (int i = 1; i <= 300'000; ++i) text += fmt::format(" {}:{}", i, i);
  const SparseRows rows = read_text(text + "\n-1 1:1");
  CHECK(rows.columns == 300'000);
  CHECK(rows.row(0)[299'999].value == 300'000);
  CHECK(rows.row(1).size() == 1);
}

TEST_CASE("the binary copy is written once, mapped, and renewed when the text changes") {
  const Directory directory;
  directory.write("rows", bytes_of(good));
  const auto read = [&] { return read_libsvm_cached(directory / "rows", directory / "copy"); };
  const std::uint32_t sum = checksum(read_libsvm(directory / "rows"));
  check_good(read());
  const auto written = fs::last_write_time(directory / "copy");
  const SparseRows again = read();
  check_good(again);
  CHECK(checksum(again) == sum);
  CHECK(fs::last_write_time(directory / "copy") == written);
  directory.write("rows", bytes_of("1 9:1\n0 1:1\n"));
  CHECK(read().columns == 9);
  CHECK(checksum(again) == sum);  // what was mapped is still there
}

TEST_CASE("a copy that is none, or damaged") {
  const Directory directory;
  directory.write("rows", bytes_of(good));
  const auto message = [&] {
    return failure_of([&] { read_libsvm_cached(directory / "rows", directory / "copy"); });
  };
  directory.write("copy",
                  bytes_of("a precious text of somebody's that is longer than a header...."));
  check_says(message(), {"copy", "no binary copy", "--cache"});
  directory.write("copy", {});
  check_says(message(), {"no binary copy"});
  fs::remove(directory / "copy");
  fs::create_directories(directory / "copy");
  check_says(message(), {"not a regular file"});
  fs::remove(directory / "copy");
  check_says(failure_of([&] { read_libsvm_cached(directory / "rows", directory / "no" / "copy"); }),
             {"cannot write"});
  CHECK(message().empty());

  std::ifstream file(directory / "copy", std::ios::binary);
  const Bytes whole{std::istreambuf_iterator<char>(file), {}};
  const auto with = [&](std::size_t at, std::uint8_t flip) {
    Bytes bytes = whole;
    bytes[at] ^= flip;
    directory.write("copy", bytes);
    return message();
  };
  check_says(with(32, 1), {"its header says", "delete it"});     // rows
  check_says(with(39, 0x80), {"its header says", "delete it"});  // rows, beyond all measure
  check_says(with(whole.size() - 1, 1), {"checksum", "delete it"});
  directory.write("copy", Bytes(whole.begin(), whole.end() - 1));
  check_says(message(), {"its header says", "delete it"});
}

TEST_CASE("damaged files are read or refused, never more") {
  std::mt19937 random = new_random();
  const Directory directory;
  std::string text;
  for (int row = 0; row < 20; ++row) {
    text += row % 3 == 0 ? "+1" : "-1";
    for (int column = 1; column < 40; column += 1 + static_cast<int>(random() % 9))
      text += fmt::format(" {}:{}", column, (static_cast<double>(random() % 2000) - 1000) / 250);
    text += row % 4 == 0 ? "\r\n" : "\n";
  }
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const bool gzipped = random() % 2 == 0;
    directory.write("rows", damage(gzipped ? gzip(bytes_of(text)) : bytes_of(text), random));
    refused += failure_of([&] {
                 const SparseRows rows = read_libsvm(directory / "rows");
                 for (const SparseEntry& entry : rows.entries) {
                   REQUIRE(entry.column < rows.columns);
                   REQUIRE(std::isfinite(entry.value));
                 }
               }).empty()
                   ? 0
                   : 1;
  }
  CHECK(refused > 500);
}

TEST_CASE("damaged copies are read as they were or refused") {
  std::mt19937 random = new_random();
  const Directory directory;
  directory.write("rows", bytes_of(good));
  const auto read = [&] { return read_libsvm_cached(directory / "rows", directory / "copy"); };
  const std::uint32_t sum = checksum(read());
  std::ifstream file(directory / "copy", std::ios::binary);
  const Bytes whole{std::istreambuf_iterator<char>(file), {}};
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    directory.write("copy", damage(whole, random));
    refused += failure_of([&] {
                 const std::uint32_t got = checksum(read());
                 CHECK(got == sum);
               }).empty()
                   ? 0
                   : 1;
  }
  CHECK(refused > 200);
}

}  // namespace
}  // namespace evenstep::kernels::test
