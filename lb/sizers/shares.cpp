#include "lb/sizers/shares.h"

#include <algorithm>

namespace evenstep::lb {
namespace {

constexpr double ns_per_second = 1e9;
constexpr double whole_batch_ps = 1e13;  // on the fastest rank: fine enough for any share
constexpr double slowest_ratio = 1e4;    // keeps the solver's times in range

bool usable(double speed) { return speed > 0 && speed < 1e300; }

}  // namespace

double speed_of(const Record& record) {
  return ns_per_second * static_cast<double>(record.samples) / static_cast<double>(record.own_ns);
}

Samples least_share(const View& view, std::size_t rank) {
  const Record& record = view.records[rank];
  return std::min(std::max(record.least, view.granule), record.most);
}

Samples move_samples(const View& view, std::size_t from, std::size_t to, Samples samples,
                     std::span<Samples> shares) {
  const Samples spare = shares[from] - least_share(view, from);
  const Samples room = view.records[to].most - shares[to];
  Samples moved = std::max<Samples>(0, std::min({samples, spare, room}));
  moved -= moved % view.granule;
  shares[from] -= moved;
  shares[to] += moved;
  return moved;
}

bool InForce::measured(const View& view) {
  Samples batch = 0;
  bool same = true;
  bool counts = true;
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    const Record& record = view.records[r];
    batch += record.samples;
    same = same && record.samples == shares_[r];
    counts = counts && !record.has(flag_cold) && (record.samples == 0 || record.own_ns > 0);
  }
  if (batch != view.batch) return false;
  if (!same && ++other_steps_ <= most_other_steps) return false;
  other_steps_ = 0;
  for (std::size_t r = 0; r < shares_.size(); ++r) shares_[r] = view.records[r].samples;
  return counts;
}

bool InForce::breaks_limits(const View& view) const {
  Samples least = 0;
  for (const Record& record : view.records) least += std::min(record.least, view.batch);
  bool broken = false;
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    const Record& record = view.records[r];
    const Samples whole_most = record.most - record.most % view.granule;
    broken = broken || shares_[r] > record.most;
    if (least <= view.batch) broken = broken || shares_[r] < std::min(record.least, whole_most);
  }
  return broken;
}

bool InForce::follow_limits(const View& view, std::span<Samples> shares) {
  if (!breaks_limits(view)) return false;
  for (std::size_t r = 0; r < shares_.size(); ++r) weights_[r] = static_cast<double>(shares_[r]);
  cut_(view, weights_, shares);
  if (std::ranges::equal(shares, shares_)) return false;  // limits that cannot be kept
  std::ranges::copy(shares, shares_.begin());
  return true;
}

void ProportionalCut::operator()(const View& view, std::span<const double> speeds,
                                 std::span<Samples> shares) {
  double fastest = 0;
  for (const double speed : speeds)
    if (usable(speed)) fastest = std::max(fastest, speed);
  const double unit_ps = std::max(1.0, whole_batch_ps / static_cast<double>(view.batch));
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const double ratio = fastest == 0        ? 1
                         : usable(speeds[r]) ? std::min(slowest_ratio, fastest / speeds[r])
                                             : slowest_ratio;
    // Not lround, which is libm's; what is rounded is positive.
    const double rounded = unit_ps * ratio + 0.5;
    ranks_[r] = {{.per_sample_ps = static_cast<Picoseconds>(rounded)},
                 least_share(view, r),
                 view.records[r].most};
  }
  solve_partition({ranks_, view.batch, view.granule, nullptr}, shares);
}

}  // namespace evenstep::lb
