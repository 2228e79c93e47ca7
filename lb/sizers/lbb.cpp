// `lbb`: F. Yao et al., "LBB: load-balanced batching for efficient distributed learning on
// heterogeneous GPU cluster", The Journal of Supercomputing, 2024. By the straggler effect
//
//     e = (max t - min t) / mean t
//
//     e < 0.05          nothing
//     e < 0.3           one sample (granule) from the slowest rank to the fastest
//     otherwise         refit t_r(b) = c_r + k_r b by least squares to the rank's last few pairs of
//                       share and time, and solve for equal times
//
// A rank whose pairs do not tell c and k apart (shares within 5 % of their mean, or a line that
// falls or starts below 0) is taken to be proportional: c = 0, k = mean t / mean b.
#include <algorithm>
#include <array>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

constexpr double negligible = 0.05;
constexpr double severe = 0.3;
constexpr std::size_t most_pairs = 8;
constexpr double least_spread = 0.05;  // of the shares around their mean

// The last few pairs of share and time of one rank.
class Pairs {
 public:
  void add(Samples share, Nanoseconds time_ns) {
    pairs_[next_] = {static_cast<double>(share), static_cast<double>(time_ns)};
    next_ = (next_ + 1) % most_pairs;
    count_ = std::min(count_ + 1, most_pairs);
  }
  bool empty() const { return count_ == 0; }

  Cost fit() const {
    const Pair mean = mean_pair();
    double shares = 0;  // sum of squares
    double both = 0;    // sum of products
    for (std::size_t i = 0; i < count_; ++i) {
      const double share = pairs_[i].share - mean.share;
      shares += share * share;
      both += share * (pairs_[i].time_ns - mean.time_ns);
    }
    const double enough = least_spread * mean.share;
    if (both > 0 && shares > static_cast<double>(count_) * enough * enough) {
      const double slope = both / shares;
      const double fixed = mean.time_ns - slope * mean.share;
      if (fixed >= 0) return cost(fixed, slope);
    }
    return cost(0, mean.time_ns / mean.share);
  }

 private:
  struct Pair {
    double share;
    double time_ns;
  };
  Pair mean_pair() const {
    Pair sum{};
    for (std::size_t i = 0; i < count_; ++i) {
      sum.share += pairs_[i].share;
      sum.time_ns += pairs_[i].time_ns;
    }
    const auto count = static_cast<double>(count_);
    return {sum.share / count, sum.time_ns / count};
  }
  static Cost cost(double fixed_ns, double ns_per_sample) {
    const auto most = static_cast<double>(largest_field);
    return {.fixed_ns = static_cast<Nanoseconds>(std::min(most, fixed_ns)),
            .per_sample_ps =
                static_cast<Picoseconds>(std::clamp(1000 * ns_per_sample + 0.5, 1.0, most))};
  }

  std::array<Pair, most_pairs> pairs_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

class Lbb final : public Sizer {
 public:
  explicit Lbb(int ranks)
      : in_force_(ranks),
        pairs_(static_cast<std::size_t>(ranks)),
        costs_(static_cast<std::size_t>(ranks)) {}

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!in_force_.measured(view)) return false;
    if (in_force_.follow_limits(view, shares)) return true;
    for (std::size_t r = 0; r < pairs_.size(); ++r)
      if (view.records[r].tells_speed())
        pairs_[r].add(view.records[r].samples, view.records[r].own_ns);
    const Times times = times_of(view);
    if (times.effect < negligible) return false;
    if (times.effect >= severe) {
      refit(view);
      solve_partition({costs_, view.batch, view.granule, view.table}, in_force_.shares());
    } else if (move_samples(view, times.slowest, times.fastest, view.granule, in_force_.shares()) ==
               0) {
      return false;
    }
    std::ranges::copy(in_force_.shares(), shares.begin());
    return true;
  }

 private:
  struct Times {
    std::size_t slowest = 0;
    std::size_t fastest = 0;
    double effect = 0;  // the straggler effect; 0 where there are no times
  };
  static Times times_of(const View& view) {
    Times times;
    double sum = 0;
    for (std::size_t r = 0; r < view.records.size(); ++r) {
      const Nanoseconds own = view.records[r].own_ns;
      sum += static_cast<double>(own);
      if (own > view.records[times.slowest].own_ns) times.slowest = r;
      if (own < view.records[times.fastest].own_ns) times.fastest = r;
    }
    const Nanoseconds range =
        view.records[times.slowest].own_ns - view.records[times.fastest].own_ns;
    if (sum > 0)
      times.effect = static_cast<double>(range) * static_cast<double>(view.records.size()) / sum;
    return times;
  }
  // A rank that never had samples is taken to be as fast as the fastest.
  void refit(const View& view) {
    Picoseconds fastest = largest_field;
    for (std::size_t r = 0; r < costs_.size(); ++r) {
      costs_[r] = {pairs_[r].empty() ? Cost{} : pairs_[r].fit(), least_share(view, r),
                   view.records[r].most};
      if (!pairs_[r].empty()) fastest = std::min(fastest, costs_[r].cost.per_sample_ps);
    }
    for (std::size_t r = 0; r < costs_.size(); ++r)
      if (pairs_[r].empty()) costs_[r].cost.per_sample_ps = fastest;
  }

  InForce in_force_;
  std::vector<Pairs> pairs_;
  std::vector<RankCost> costs_;
};

}  // namespace

std::unique_ptr<Sizer> make_lbb(int ranks) { return std::make_unique<Lbb>(ranks); }

}  // namespace evenstep::lb
