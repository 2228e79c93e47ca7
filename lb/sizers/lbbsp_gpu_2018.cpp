// `lbbsp-gpu-2018`: C. Chen et al., "Fast distributed deep learning via worker-adaptive batch
// sizing" (poster, SoCC 2018) and the first version of arXiv 1806.02508: GPUs are profiled before
// training,
//
//     t_r(b) = transfer + max(flat, k b)      flat up to the saturation batch, then linear
//
// which is max(floor, fixed + per_sample b) of the rank's forecast in its first record, and the
// batch is cut once for equal times. A profile goes stale: a rank whose times stay off what it
// foretells, by over 10 % of what all ranks are off, for 10 steps in a row has its costs scaled by
// what was measured, and the batch is cut anew.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

constexpr double tolerance = 0.1;
constexpr int steps_to_believe = 10;
constexpr double weight_of_newest = 0.2;

const SizeTable linear;

std::int64_t scaled(std::int64_t value, double factor) {
  const double product = static_cast<double>(value) * factor + 0.5;
  return static_cast<std::int64_t>(std::min(product, static_cast<double>(largest_field)));
}

class LbbspGpu2018 final : public Sizer {
 public:
  explicit LbbspGpu2018(int ranks) : in_force_(ranks), ranks_(static_cast<std::size_t>(ranks)) {
    costs_.resize(ranks_.size());
  }

  bool propose_first(const View& view, std::span<Samples> shares) override {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Record& record = view.records[r];
      if (record.per_sample_ps == 0)
        throw std::invalid_argument(fmt::format(
            "balance lbbsp-gpu-2018: rank {} brought no profile of its speed to the start", r));
      ranks_[r].cost = {record.fixed_ns, record.per_sample_ps, record.floor_ns};
    }
    solve(view, shares);
    return true;
  }

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!in_force_.measured(view)) return false;
    if (in_force_.follow_limits(view, shares)) return true;
    compare(view);
    if (!stale()) return false;
    for (Rank& rank : ranks_) {
      const Cost cost = rank.cost;
      if (rank.off > 0)
        rank = {{scaled(cost.fixed_ns, rank.off),
                 std::max<Picoseconds>(1, scaled(cost.per_sample_ps, rank.off)),
                 scaled(cost.floor_ns, rank.off)}};
    }
    solve(view, shares);
    std::ranges::copy(shares, in_force_.shares().begin());
    return true;
  }

 private:
  struct Rank {
    Cost cost;
    double off = 0;     // measured over foretold, smoothed; 0: not measured yet
    int steps_off = 0;  // in a row beyond the tolerance
  };

  void solve(const View& view, std::span<Samples> shares) {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      costs_[r] = {ranks_[r].cost, least_share(view, r), view.records[r].most};
    solve_partition({costs_, view.batch, view.granule, view.table}, shares);
  }

  void compare(const View& view) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Record& record = view.records[r];
      if (record.samples == 0) continue;
      const Nanoseconds foretold = std::max<Nanoseconds>(
          1,
          finish_ns(ranks_[r].cost, view.table != nullptr ? *view.table : linear, record.samples));
      const double off = static_cast<double>(record.own_ns) / static_cast<double>(foretold);
      ranks_[r].off += (ranks_[r].off == 0 ? 1 : weight_of_newest) * (off - ranks_[r].off);
    }
  }
  // Whether a rank was off for long, next to what the ranks are off in the mean.
  bool stale() {
    double sum = 0;
    double count = 0;
    for (const Rank& rank : ranks_) {
      if (rank.off == 0) continue;
      sum += rank.off;
      count += 1;
    }
    bool any = false;
    for (Rank& rank : ranks_) {
      const double ratio = rank.off == 0 ? 1 : rank.off * count / sum;
      const bool beyond = ratio > 1 + tolerance || ratio < 1 - tolerance;
      rank.steps_off = beyond ? rank.steps_off + 1 : 0;
      any = any || rank.steps_off >= steps_to_believe;
    }
    return any;
  }

  InForce in_force_;
  std::vector<Rank> ranks_;
  std::vector<RankCost> costs_;
};

}  // namespace

std::unique_ptr<Sizer> make_lbbsp_gpu_2018(int ranks) {
  return std::make_unique<LbbspGpu2018>(ranks);
}

}  // namespace evenstep::lb
