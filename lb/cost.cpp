#include "lb/cost.h"

#include <algorithm>
#include <stdexcept>

namespace evenstep::lb {
namespace {

__extension__ typedef __int128 Wide;  // products of two 64-bit numbers

constexpr std::int64_t ps_per_ns_units = 1000 * SizeTable::units_per_sample;

std::int64_t clamped(Wide value) {
  return static_cast<std::int64_t>(std::min<Wide>(value, largest_field));
}

}  // namespace

SizeTable::SizeTable(std::span<const std::int64_t> cost) : units_(cost.begin(), cost.end()) {
  if (units_.size() < 2 || units_.back() <= 0)
    throw std::invalid_argument("a size table needs a cost above 0 for its largest size");
  units_[0] = 0;
  for (std::size_t b = 1; b < units_.size(); ++b) units_[b] = std::max(units_[b], units_[b - 1]);
  const Wide samples = static_cast<Wide>(units_.size() - 1) * units_per_sample;
  const Wide largest = units_.back();
  for (std::size_t b = 1; b < units_.size(); ++b)
    units_[b] = std::max<std::int64_t>(1, static_cast<std::int64_t>(units_[b] * samples / largest));
}

std::int64_t SizeTable::units(Samples share) const {
  const auto size = static_cast<Samples>(units_.size());
  return share < size ? units_[static_cast<std::size_t>(share)] : share * units_per_sample;
}

Samples SizeTable::largest_share(std::int64_t units) const {
  if (units_.empty() || units >= units_.back())
    return std::max(static_cast<Samples>(units_.size()) - 1, units / units_per_sample);
  return std::ranges::upper_bound(units_, units) - units_.begin() - 1;
}

Nanoseconds finish_ns(const Cost& cost, const SizeTable& table, Samples share) {
  if (share == 0) return 0;
  const Wide variable = Wide{cost.per_sample_ps} * table.units(share) / ps_per_ns_units;
  return std::max(cost.floor_ns, clamped(cost.fixed_ns + variable));
}

Samples largest_share(const Cost& cost, const SizeTable& table, Nanoseconds time) {
  if (time >= largest_field) return largest_field;  // finish_ns is clamped to it
  if (time < cost.floor_ns || time < cost.fixed_ns) return 0;
  if (cost.per_sample_ps == 0) return largest_field;
  const Wide budget = Wide{time - cost.fixed_ns + 1} * ps_per_ns_units - 1;
  return table.largest_share(clamped(budget / cost.per_sample_ps));
}

}  // namespace evenstep::lb
