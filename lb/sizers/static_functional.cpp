// `static-functional`: FuPerMod's functional performance model, built while the job runs, as the
// distributed functional partitioning algorithm does (A. Lastovetsky, R. Reddy, "Distributed data
// partitioning for heterogeneous processors based on partial estimation of their functional
// performance models", 2009; used for training by S. Moreno-Alvarez et al., 2020).
//
//   1. The parts in force, even at first, are run a few times: mean t_r.
//   2. Where (max t - min t) / min t is at most eps, or rounds run out: done, for good.
//   3. Else (b_r, s_r = b_r / t_r) joins the rank's speed function: straight between its points,
//      constant beyond them. The batch is cut so that b_r / s_r(b_r) is equal for all. Back to 1.
#include <algorithm>
#include <array>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

constexpr double eps = 0.05;
constexpr int repetitions = 5;
constexpr std::size_t most_rounds = 10;
constexpr int halvings = 60;  // of an interval: to the last digits

// Speed by share, from a few points.
class SpeedFunction {
 public:
  void add(double share, double speed) {
    std::size_t at = 0;
    while (at < count_ && points_[at].share < share) ++at;
    if (at < count_ && points_[at].share == share) {
      points_[at].speed = speed;
      return;
    }
    for (std::size_t i = count_; i > at; --i) points_[i] = points_[i - 1];
    points_[at] = {share, speed};
    ++count_;
  }
  bool empty() const { return count_ == 0; }

  double speed(double share) const {
    if (share <= points_[0].share) return points_[0].speed;
    for (std::size_t i = 1; i < count_; ++i) {
      const Point& left = points_[i - 1];
      const Point& right = points_[i];
      if (share > right.share) continue;
      return left.speed +
             (right.speed - left.speed) * (share - left.share) / (right.share - left.share);
    }
    return points_[count_ - 1].speed;
  }
  // The largest share up to `most` done within `time`.
  double share_within(double time, double most) const {
    double low = 0;
    double high = most;
    for (int i = 0; i < halvings; ++i) {
      const double middle = 0.5 * (low + high);
      (middle <= time * speed(middle) ? low : high) = middle;
    }
    return low;
  }

 private:
  struct Point {
    double share;
    double speed;
  };
  std::array<Point, most_rounds> points_{};  // by share
  std::size_t count_ = 0;
};

class StaticFunctional final : public Sizer {
 public:
  explicit StaticFunctional(int ranks)
      : in_force_(ranks),
        cut_(ranks),
        functions_(static_cast<std::size_t>(ranks)),
        time_ns_(functions_.size()),
        wanted_(functions_.size()) {}

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!in_force_.measured(view)) return false;
    if (in_force_.follow_limits(view, shares)) return true;
    if (rounds_ == most_rounds) return false;
    for (std::size_t r = 0; r < time_ns_.size(); ++r)
      time_ns_[r] += static_cast<double>(view.records[r].own_ns);
    if (++steps_ < repetitions) return false;
    const bool go_on = finish_round(view);
    steps_ = 0;
    std::ranges::fill(time_ns_, 0);
    if (!go_on) return false;
    cut_(view, wanted_, shares);
    std::ranges::copy(shares, in_force_.shares().begin());
    return true;
  }

 private:
  bool finish_round(const View& view) {
    ++rounds_;
    const auto [shortest, longest] = std::ranges::minmax(time_ns_);
    if (longest - shortest <= eps * shortest) {
      rounds_ = most_rounds;
      return false;
    }
    for (std::size_t r = 0; r < functions_.size(); ++r) {
      const auto share = static_cast<double>(in_force_.shares()[r]);
      if (share > 0) functions_[r].add(share, share * repetitions / time_ns_[r]);
    }
    find_equal_times(static_cast<double>(view.batch));
    return true;
  }
  void find_equal_times(double batch) {
    double low = 0;
    double high = 1;
    while (samples_within(high, batch) < batch && high < 1e18) high *= 2;
    for (int i = 0; i < halvings; ++i) {
      const double middle = 0.5 * (low + high);
      (samples_within(middle, batch) < batch ? low : high) = middle;
    }
    samples_within(high, batch);
  }
  // Sets what each rank can do within `time`. Ranks that never had samples count as the mean of the
  // others.
  double samples_within(double time, double batch) {
    double sum = 0;
    double known = 0;
    for (std::size_t r = 0; r < functions_.size(); ++r) {
      if (functions_[r].empty()) continue;
      sum += wanted_[r] = functions_[r].share_within(time, batch);
      known += 1;
    }
    const double mean = sum / known;
    for (std::size_t r = 0; r < functions_.size(); ++r)
      if (functions_[r].empty()) sum += wanted_[r] = mean;
    return sum;
  }

  InForce in_force_;
  ProportionalCut cut_;
  std::vector<SpeedFunction> functions_;
  std::vector<double> time_ns_;  // summed over the round's steps
  std::vector<double> wanted_;   // samples
  int steps_ = 0;                // of the round so far
  std::size_t rounds_ = 0;
};

}  // namespace

std::unique_ptr<Sizer> make_static_functional(int ranks) {
  return std::make_unique<StaticFunctional>(ranks);
}

}  // namespace evenstep::lb
