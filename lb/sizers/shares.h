// What the sizers that go by measured times have in common: knowing which steps speak of the
// partition they proposed last, cutting the batch in proportion to speeds, and moving samples from
// one rank to another within the ranks' limits.
#pragma once

#include <span>
#include <vector>

#include "lb/sizer.h"

namespace evenstep::lb {

/// Samples a second.
double speed_of(const Record& record);

/// The fewest samples a sizer leaves to a rank: a granule at least, where the rank can take it, so
/// that it stays observed.
Samples least_share(const View& view, std::size_t rank);

/// Moves up to `samples`, in whole granules and within both ranks' limits. Returns how many.
Samples move_samples(const View& view, std::size_t from, std::size_t to, Samples samples,
                     std::span<Samples> shares);

/// Cuts the batch in proportion to speeds: the exact solver with b_r / speed_r as the time.
class ProportionalCut {
 public:
  explicit ProportionalCut(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// Whole granules within the ranks' limits; least_share for all. Speeds of 0 or less and such as
  /// are not finite count as the slowest there are. Throws InfeasiblePartition if the caps are too
  /// low.
  void operator()(const View& view, std::span<const double> speeds, std::span<Samples> shares);

 private:
  std::vector<RankCost> ranks_;
};

/// The partition that the sizer knows to be in force.
class InForce {
 public:
  explicit InForce(int ranks)
      : shares_(static_cast<std::size_t>(ranks)), weights_(shares_.size()), cut_(ranks) {}

  /// Whether the last step ran at the partition in force and all its times count. Steps that were
  /// under way when the partition changed, short last batches, cold steps and steps in which a rank
  /// with samples measured nothing do not. Call it once a step.
  bool measured(const View& view);
  /// Where the ranks' limits changed and the partition in force breaks them: cuts the batch anew in
  /// its proportions, writes the result to `shares` and returns true. Call it on measured steps.
  bool follow_limits(const View& view, std::span<Samples> shares);

  std::span<const Samples> shares() const { return shares_; }
  std::span<Samples> shares() { return shares_; }

 private:
  bool breaks_limits(const View& view) const;

  std::vector<Samples> shares_;
  std::vector<double> weights_;
  ProportionalCut cut_;
  int other_steps_ = most_other_steps;  // full steps in a row at another partition

  static constexpr int most_other_steps = 2;  // a lag of 1 makes one
};

}  // namespace evenstep::lb
