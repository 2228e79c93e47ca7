#include "common/csv.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "evenstep/error.h"

namespace evenstep {
namespace {

constexpr std::size_t longest_row_bytes = 4096;

void split(std::string_view text, std::vector<std::string_view>& fields) {
  fields.clear();
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = text.find(',');
    fields.push_back(trim(text.substr(0, comma)));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
}

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

CsvReader::CsvReader(const std::string& path, std::string_view header)
    : lines_(path, longest_row_bytes) {
  split(header, names_);
  if (!lines_.next())
    throw Error(fmt::format("{} is empty; its first line must be {}", path, header));
  split(lines_.line(), fields_);
  if (fields_ != names_)
    fail(fmt::format("the first line must be {}; it is {}", header, in_quotes(lines_.line())));
}

bool CsvReader::next() {
  if (!lines_.next()) return false;
  split(lines_.line(), fields_);
  if (fields_.size() != names_.size())
    fail(fmt::format("{} fields where {} belong: {}", fields_.size(), names_.size(),
                     in_quotes(lines_.line())));
  return true;
}

void CsvReader::refuse(std::size_t column, const std::string& wanted) const {
  fail(fmt::format("{} is {}, it must be {}", names_[column], in_quotes(fields_[column]), wanted));
}

std::int64_t CsvReader::whole(std::size_t column, std::int64_t most) const {
  std::int64_t value = 0;
  if (!parse(fields_[column], value) || value < 0 || value > most)
    refuse(column, fmt::format("a whole number from 0 to {}", most));
  return value;
}

double CsvReader::real(std::size_t column, double most) const {
  double value = 0;
  if (!parse(fields_[column], value) || !(value >= 0 && value <= most))
    refuse(column, fmt::format("a number from 0 to {}", most));
  return value;
}

lb::Cost CsvReader::cost(std::size_t column) const {
  const double floor = is_empty(column + 2) ? 0 : real(column + 2, longest_fixed_seconds);
  const lb::Cost cost = {std::llround(1e9 * real(column, longest_fixed_seconds)),
                         std::llround(1e12 * real(column + 1, longest_sample_seconds)),
                         std::llround(1e9 * floor)};
  if (lb::finish_ns(cost, lb::SizeTable(), 1) == 0)
    fail("a sample takes under a nanosecond; give fixed_seconds or seconds_per_sample above 0");
  return cost;
}

}  // namespace evenstep
