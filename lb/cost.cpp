#include "lb/cost.h"

#include <algorithm>
#include <stdexcept>

namespace evenstep::lb {
namespace {

__extension__ typedef __int128 Wide;  // products of two 64-bit numbers

std::int64_t clamped(Wide value) {
  return static_cast<std::int64_t>(std::min<Wide>(value, largest_field));
}

std::int64_t scaled(std::int64_t value, double factor) {
  return static_cast<std::int64_t>(
      std::min(static_cast<double>(value) * factor, static_cast<double>(largest_field)));
}

}  // namespace

Cost times(const Cost& cost, double factor) {
  return {scaled(cost.fixed_ns, factor), scaled(cost.per_sample_ps, factor),
          scaled(cost.floor_ns, factor)};
}

SizeTable::SizeTable(std::span<const std::int64_t> cost) : units_(cost.begin(), cost.end()) {
  if (units_.size() < 2 || units_.back() <= 0)
    throw std::invalid_argument("a size table needs a cost above 0 for its largest size");
  units_[0] = 0;
  const Wide samples = static_cast<Wide>(units_.size() - 1) * units_per_sample;
  const Wide largest = units_.back();
  for (std::size_t b = 1; b < units_.size(); ++b)
    units_[b] = std::max<std::int64_t>(1, static_cast<std::int64_t>(units_[b] * samples / largest));
  hull_ = units_;
  for (std::size_t b = hull_.size() - 1; b-- > 0;) hull_[b] = std::min(hull_[b], hull_[b + 1]);
}

Samples SizeTable::largest_listed(std::int64_t units) const {
  return std::ranges::upper_bound(hull_, units) - hull_.begin() - 1;
}

Nanoseconds wide_finish_ns(const Cost& cost, std::int64_t units) {
  const Wide variable = Wide{cost.per_sample_ps} * units / ps_per_ns_units;
  return std::max(cost.floor_ns, clamped(cost.fixed_ns + variable));
}

std::int64_t wide_units_within(const Cost& cost, Nanoseconds time) {
  const Wide budget = Wide{time - cost.fixed_ns + 1} * ps_per_ns_units - 1;
  return clamped(budget / cost.per_sample_ps);
}

}  // namespace evenstep::lb
