#include "sim/log_reader.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

namespace evenstep::sim {
namespace {

using nlohmann::json;

constexpr std::size_t longest_line_bytes = std::size_t{1} << 26;  // 100,000 ranks take 8 MB
constexpr std::uint64_t largest_step = std::uint64_t{1} << 40;
constexpr double largest_share = 1U << 31;
constexpr double least_seconds = 1e-9;
constexpr double most_seconds = 3600;

void read_numbers(const LineReader& lines, const json& object, const char* field, double most,
                  std::vector<double>& numbers) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_array() || found->empty())
    lines.fail(fmt::format("no {}, or it is not an array of a number a rank", field));
  numbers.clear();
  for (const json& element : *found) {
    const double number = element.is_number() ? element.get<double>() : -1;
    if (!(number >= 0 && number <= most))
      lines.fail(fmt::format(
          "{} of rank {} is {}, it must be a number from 0 to {}", field, numbers.size(),
          in_quotes(element.dump(-1, ' ', true, json::error_handler_t::replace)), most));
    numbers.push_back(number);
  }
}

}  // namespace

LogReader::LogReader(const std::string& path) : lines_(path, longest_line_bytes) {}

bool LogReader::next() {
  if (!lines_.next()) return false;
  const json object = json::parse(lines_.line(), nullptr, false);
  if (!object.is_object()) fail(fmt::format("not a JSON object: {}", in_quotes(lines_.line())));
  const auto step = object.find("step");
  // Unsigned is what a number without sign and fraction is read as.
  if (step == object.end() || !step->is_number_unsigned() ||
      step->get<std::uint64_t>() > largest_step)
    fail(fmt::format("no step, or it is not a whole number from 0 to {}", largest_step));
  const auto number = static_cast<std::int64_t>(step->get<std::uint64_t>());
  if (number <= step_)
    fail(fmt::format("step {} comes after step {}; a log's steps ascend", number, step_));
  step_ = number;
  const std::size_t ranks_before = shares_.size();
  read_numbers(lines_, object, "shares", largest_share, shares_);
  read_numbers(lines_, object, "own_seconds", most_seconds, own_seconds_);
  check_ranks(ranks_before);
  return true;
}

void LogReader::check_ranks(std::size_t ranks_before) const {
  if (shares_.size() != own_seconds_.size())
    fail(fmt::format("shares are of {} ranks, own_seconds of {}", shares_.size(),
                     own_seconds_.size()));
  if (ranks_before != 0 && shares_.size() != ranks_before)
    fail(fmt::format("{} ranks, in the lines before {}", shares_.size(), ranks_before));
  const double batch = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  if (batch > largest_share)
    fail(fmt::format("the shares add up to {}, the global batch can be at most {}", batch,
                     largest_share));
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    if (shares_[r] != static_cast<double>(static_cast<std::int64_t>(shares_[r])))
      fail(fmt::format("rank {} has a share of {}, it must be whole", r, shares_[r]));
    if (shares_[r] > 0 && own_seconds_[r] < least_seconds)
      fail(fmt::format("rank {} has {} samples and an own time of {} s; it must be above 0", r,
                       shares_[r], own_seconds_[r]));
  }
}

}  // namespace evenstep::sim
