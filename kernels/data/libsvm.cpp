#include "kernels/data/libsvm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/data/byte_reader.h"
#include "runtime/huge_pages.h"

namespace evenstep::kernels {
namespace {

constexpr std::size_t buffer_bytes = 1 << 20;
constexpr std::uint64_t most_columns = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t quoted_bytes = 40;
constexpr std::string_view blanks = " \t\r\v\f";

std::string in_quotes(std::string_view text) {
  std::string shown(text.substr(0, quoted_bytes));
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return fmt::format("'{}{}'", shown, text.size() > quoted_bytes ? "..." : "");
}

/// The file's lines, without their ends.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : reader_(path), buffer_(buffer_bytes) {}

  bool next() {
    line_.clear();
    ++number_;
    for (bool any = false;; any = true) {
      if (unread_.empty() && !fill()) return any;
      const std::size_t end = unread_.find('\n');
      line_.append(unread_.substr(0, end));
      unread_.remove_prefix(end == std::string_view::npos ? unread_.size() : end + 1);
      if (end != std::string_view::npos) return true;
    }
  }
  std::string_view line() const { return line_; }
  [[noreturn]] void fail(const std::string& what) const {
    reader_.fail(fmt::format("line {}: {}", number_, what));
  }
  [[noreturn]] void fail_whole(const std::string& what) const { reader_.fail(what); }

 private:
  bool fill() {
    const std::size_t got = reader_.read(buffer_);
    unread_ = {reinterpret_cast<const char*>(buffer_.data()), got};
    return got > 0;
  }

  ByteReader reader_;
  std::vector<std::uint8_t> buffer_;
  std::string_view unread_;
  std::string line_;
  std::uint64_t number_ = 0;
};

/// The next word, cut off the front of `text`; empty at its end.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(blanks));
  text.remove_prefix(word.size());
  return word;
}

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size();
}

/// A number as people write it, with a plus sign if they like.
bool parse_real(std::string_view text, double& number) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return parse(text, number);
}

struct Owned {
  std::vector<std::uint64_t> starts{0};
  std::vector<SparseEntry, HugePageAllocator<SparseEntry>> entries;
  std::vector<std::int8_t> labels;
  std::vector<std::uint32_t> in_file;  // of a training set
};

class Parser {
 public:
  Parser(const std::filesystem::path& path, const SparseRows* training)
      : lines_(path), training_(training) {
    if (training_ != nullptr) seen_ = {training_->label_values[0], training_->label_values[1]};
  }

  SparseRows read() {
    while (lines_.next()) {
      std::string_view text = lines_.line();
      text = text.substr(0, text.find('#'));
      const std::string_view label = next_word(text);
      if (!label.empty()) add_row(label, text);
    }
    if (owned_->labels.empty())
      lines_.fail_whole("has no rows; lines of `label index:value ...` were expected");
    if (seen_.size() < 2)
      lines_.fail_whole(fmt::format(
          "all its rows have the label {}; a linear SVM needs two different ones", seen_.front()));
    return finish();
  }

 private:
  void add_row(std::string_view label, std::string_view rest) {
    owned_->labels.push_back(number_of(label));
    std::uint64_t last = 0;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest))
      add_entry(word, last);
    owned_->starts.push_back(owned_->entries.size());
  }

  /// The place of the label among those seen.
  std::int8_t number_of(std::string_view text) {
    double label = 0;
    if (!parse_real(text, label) || !std::isfinite(label))
      lines_.fail(fmt::format("the label is {}, a number was expected", in_quotes(text)));
    const auto found = std::ranges::find(seen_, label);
    if (found == seen_.end() && seen_.size() == 2)
      lines_.fail(
          fmt::format("the label is {}, {} or {} was expected: a linear SVM tells two apart",
                      in_quotes(text), seen_[0], seen_[1]));
    const auto place = found - seen_.begin();
    if (found == seen_.end()) seen_.push_back(label);
    return static_cast<std::int8_t>(place);
  }

  void add_entry(std::string_view word, std::uint64_t& last) {
    const std::size_t colon = word.find(':');
    std::uint64_t index = 0;
    double value = 0;
    if (colon == std::string_view::npos)
      lines_.fail(fmt::format("{} where index:value was expected", in_quotes(word)));
    if (!parse(word.substr(0, colon), index) || index < 1 || index > most_columns)
      lines_.fail(fmt::format("the index in {} must be a whole number from 1 to {}",
                              in_quotes(word), most_columns));
    if (index <= last)
      lines_.fail(fmt::format("index {} comes after {}; indices must ascend", index, last));
    if (!parse_real(word.substr(colon + 1), value) || !std::isfinite(static_cast<float>(value)))
      lines_.fail(
          fmt::format("the value in {} must be a number that a float can hold", in_quotes(word)));
    last = index;
    if (training_ != nullptr && index > static_cast<std::uint64_t>(training_->columns)) return;
    columns_ = std::max(columns_, index);
    owned_->entries.push_back({static_cast<std::uint32_t>(index - 1), static_cast<float>(value)});
  }

  SparseRows finish() {
    const bool swapped = seen_[0] > seen_[1];
    for (std::int8_t& label : owned_->labels) label = (label != 0) != swapped ? 1 : -1;
    const auto columns =
        training_ != nullptr ? training_->columns : static_cast<std::int64_t>(columns_);
    if (training_ != nullptr)
      number_alike(training_->in_file, owned_->starts, owned_->entries);
    else
      owned_->in_file = number_by_frequency(columns, owned_->starts, owned_->entries);
    return {columns,        {std::min(seen_[0], seen_[1]), std::max(seen_[0], seen_[1])},
            owned_->starts, owned_->entries,
            owned_->labels, owned_->in_file,
            owned_};
  }

  Lines lines_;
  const SparseRows* training_;
  std::vector<double> seen_;
  std::uint64_t columns_ = 0;
  std::shared_ptr<Owned> owned_ = std::make_shared<Owned>();
};

}  // namespace

SparseRows read_libsvm(const std::filesystem::path& path) { return Parser(path, nullptr).read(); }

SparseRows read_libsvm_test(const std::filesystem::path& path, const SparseRows& training) {
  return Parser(path, &training).read();
}

}  // namespace evenstep::kernels
