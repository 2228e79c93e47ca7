// What all ranks believe of one rank: its cost, learned twice, with and without
// regard to the CPU availability that it sees just before each step. Which of
// the two counts is decided for all ranks together, by how well each foretold
// of late.
#pragma once

#include "lb/cost_model.h"
#include "lb/record.h"

namespace evenstep::lb {

/// What the models of all ranks share.
class Pool {
 public:
  explicit Pool(std::size_t ranks) : plain(ranks), seen(ranks) {}

  Surprises plain;
  Surprises seen;

  /// The errors of both forecasts for one rank and step, relative to the time.
  void compare(double plain_off, double seen_off);
  /// Whether availability foretells times better than times alone do.
  bool trust_seen() const { return trust_seen_; }

 private:
  double plain_error_ = 0;  // squared, forgetting
  double seen_error_ = 0;
  double readings_ = 0;
  bool trust_seen_ = false;
};

class RankModel {
 public:
  /// Takes one step's record, at `units` (SizeTable::units of the share, above
  /// 0). Returns what the trusted model makes of it.
  CostModel::News observe(const Record& record, std::int64_t units, Pool& pool);
  /// Takes note of the availability seen for the next step; 0: none.
  void see(std::uint32_t cpu_available) { cpu_ = cpu_available; }

  int observations() const { return plain_.observations(); }
  Cost cost(const Pool& pool) const;
  double relative_error(const Pool& pool) const { return trusted(pool).relative_error(); }
  double deviation(const Pool& pool) const { return trusted(pool).deviation(); }
  double deviation_error(const Pool& pool) const { return trusted(pool).deviation_error(); }
  /// Whether the rank is sized by a cost that `own_ns` at `units` does not bear out.
  bool is_surprised_by(Nanoseconds own_ns, std::int64_t units, const Pool& pool) const;

 private:
  bool use_seen(const Pool& pool) const;
  const CostModel& trusted(const Pool& pool) const { return use_seen(pool) ? seen_ : plain_; }

  CostModel plain_;
  CostModel seen_;  // of times as they would be at full availability
  std::uint32_t cpu_ = 0;
};

}  // namespace evenstep::lb
