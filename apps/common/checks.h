// CLI11 checks that refuse with what was given and what would do.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace evenstep {

template <typename Names>
bool is_one_of(const Names& names, std::string_view value) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](std::string_view name) { return name == value; });
}

template <typename Names>
auto one_of(Names names) {
  return [=](const std::string& value) -> std::string {
    if (is_one_of(names, value)) return {};
    return fmt::format("'{}' is unknown; choose one of {}", value, fmt::join(names, ", "));
  };
}

inline auto whole(std::int64_t least, std::int64_t most) {
  return [=](const std::string& text) -> std::string {
    std::int64_t value = 0;
    if (!CLI::detail::lexical_cast(text, value) || value < least || value > most)
      return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
    return {};
  };
}

inline auto real(double least, double most) {
  return [=](const std::string& text) -> std::string {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
    if (number && value >= least && value <= most) return {};
    return fmt::format("'{}' is not a number of at least {}{}", text, least,
                       most < HUGE_VAL ? fmt::format(" and at most {}", most) : "");
  };
}

}  // namespace evenstep
