// What a share costs one rank: t(0) = 0; t(b) = max(floor, fixed + per_sample * w(b)) for b > 0.
// w(b) is b, or the relative cost of b where sizes are not smooth (a share of 15 may run as chunks
// of 8 + 4 + 2 + 1, which costs more than 15/16 of a chunk of 16).
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "lb/units.h"

namespace evenstep::lb {

struct Cost {
  Nanoseconds fixed_ns = 0;
  Picoseconds per_sample_ps = 0;
  Nanoseconds floor_ns = 0;
};

/// `factor` times the cost, clamped to largest_field.
Cost times(const Cost& cost, double factor);

/// w(b) for all shares b: measured once, the same on all ranks. Empty: w(b) = b.
class SizeTable {
 public:
  static constexpr std::int64_t units_per_sample = 256;

  SizeTable() = default;
  /// `cost[b]` is the cost of b samples in any one unit, for b = 0 .. cost.size() - 1. It is scaled
  /// so that the largest size costs its number of samples; larger shares go on in proportion.
  /// Throws std::invalid_argument unless the largest size costs over 0.
  explicit SizeTable(std::span<const std::int64_t> cost);

  /// w(b) in 1/units_per_sample of a sample; above 0 for b > 0.
  std::int64_t units(Samples share) const { return at(units_, share); }
  /// The least that b or more samples cost: never decreases, as the solver wants it. 63 samples in
  /// chunks of 32 + 16 + ... + 1 may cost more than 64 in one.
  std::int64_t hull_units(Samples share) const { return at(hull_, share); }
  /// The largest share whose w(b) is at most `units`.
  Samples largest_share(std::int64_t units) const {
    if (hull_.empty()) return units / units_per_sample;
    if (units < hull_.back()) return largest_listed(units);
    return std::max(static_cast<Samples>(hull_.size()) - 1, units / units_per_sample);
  }

 private:
  static std::int64_t at(const std::vector<std::int64_t>& list, Samples share) {
    const auto size = static_cast<Samples>(list.size());
    return share < size ? list[static_cast<std::size_t>(share)] : share * units_per_sample;
  }
  Samples largest_listed(std::int64_t units) const;

  std::vector<std::int64_t> units_;  // by share
  std::vector<std::int64_t> hull_;
};

// The solver asks for these millions of times a second: inline, in 64 bits, and by a division of
// doubles where that is exact. The rest, above some hours, is in 128 bits.
inline constexpr std::int64_t ps_per_ns_units = 1000 * SizeTable::units_per_sample;
inline constexpr Nanoseconds narrow_ns = std::numeric_limits<std::int64_t>::max() / ps_per_ns_units;
Nanoseconds wide_finish_ns(const Cost& cost, std::int64_t units);
std::int64_t wide_units_within(const Cost& cost, Nanoseconds time);

/// a / b for a >= 0 and b > 0.
inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  const double near = static_cast<double>(a) / static_cast<double>(b);
  if (near >= static_cast<double>(std::int64_t{1} << 52)) return a / b;
  const auto q = static_cast<std::int64_t>(near);  // off by one at most
  const std::int64_t rest = a - q * b;
  return q - (rest < 0 ? 1 : 0) + (rest >= b ? 1 : 0);
}

/// t at w(share) = `units` > 0, clamped to largest_field.
inline Nanoseconds finish_of_units(const Cost& cost, std::int64_t units) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(cost.per_sample_ps, units, &product))
    return wide_finish_ns(cost, units);
  const Nanoseconds time = cost.fixed_ns + product / ps_per_ns_units;
  return std::max(cost.floor_ns, std::min(time, largest_field));
}

/// What a share is foreseen to take.
inline Nanoseconds finish_ns(const Cost& cost, const SizeTable& table, Samples share) {
  return share == 0 ? 0 : finish_of_units(cost, table.units(share));
}

/// The least time that a share as large or larger takes: never decreases.
inline Nanoseconds hull_finish_ns(const Cost& cost, const SizeTable& table, Samples share) {
  return share == 0 ? 0 : finish_of_units(cost, table.hull_units(share));
}

/// The largest share with finish_ns(share) <= `time`; 0 if there is none but the empty one.
inline Samples largest_share(const Cost& cost, const SizeTable& table, Nanoseconds time) {
  if (time >= largest_field) return largest_field;  // finish_ns is clamped to it
  if (time < cost.floor_ns || time < cost.fixed_ns) return 0;
  if (cost.per_sample_ps == 0) return largest_field;
  const Nanoseconds variable = time - cost.fixed_ns + 1;
  const std::int64_t units = variable > narrow_ns
                                 ? wide_units_within(cost, time)
                                 : quotient(variable * ps_per_ns_units - 1, cost.per_sample_ps);
  return table.largest_share(std::min(units, largest_field));
}

}  // namespace evenstep::lb
