// What a share costs one rank: t(0) = 0; t(b) = max(floor, fixed + per_sample * w(b)) for b > 0.
// w(b) is b, or the relative cost of b where sizes are not smooth (a share of 15 may run as chunks
// of 8 + 4 + 2 + 1, which costs more than 15/16 of a chunk of 16).
#pragma once

#include <span>
#include <vector>

#include "lb/units.h"

namespace evenstep::lb {

struct Cost {
  Nanoseconds fixed_ns = 0;
  Picoseconds per_sample_ps = 0;
  Nanoseconds floor_ns = 0;
};

/// w(b) for all shares b: measured once, the same on all ranks. Empty: w(b) = b.
class SizeTable {
 public:
  static constexpr std::int64_t units_per_sample = 256;

  SizeTable() = default;
  /// `cost[b]` is the cost of b samples in any one unit, for b = 0 .. cost.size() - 1. It is made
  /// non-decreasing and scaled so that the largest size costs its number of samples; larger shares
  /// go on in proportion. Throws std::invalid_argument unless the largest size costs over 0.
  explicit SizeTable(std::span<const std::int64_t> cost);

  /// w(b) in 1/units_per_sample of a sample; above 0 for b > 0.
  std::int64_t units(Samples share) const;
  /// The largest share whose w(b) is at most `units`.
  Samples largest_share(std::int64_t units) const;

 private:
  std::vector<std::int64_t> units_;  // by share
};

/// t(share), clamped to largest_field.
Nanoseconds finish_ns(const Cost& cost, const SizeTable& table, Samples share);

/// The largest share with finish_ns(share) <= `time`; 0 if there is none but the empty one.
Samples largest_share(const Cost& cost, const SizeTable& table, Nanoseconds time);

}  // namespace evenstep::lb
