// `proportional`: S. Tyagi, P. Sharma, "OmniLearn: a framework for distributed deep learning over
// heterogeneous clusters", IEEE TPDS 2025: a proportional controller on the ranks' times.
//
//     t_r   = exponentially weighted mean of the rank's times since the last change
//     b_r  += b_r (mean t / t_r - 1)      the change at most a stated part of b_r
//
// and the result is scaled to add up to B. Dead band: nothing while every change asked for is below
// 5 % of its share, that is while all times are that close to their mean. The paper changes sizes
// seldom, since there a change restarts the workers' graphs: here it looks every 20 steps and moves
// a share by at most a fifth.
#include <algorithm>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

constexpr double dead_band = 0.05;
constexpr double most_change = 0.2;  // of a share, in one adjustment
constexpr double weight_of_newest = 0.2;
constexpr int steps_between = 20;

class Proportional final : public Sizer {
 public:
  explicit Proportional(int ranks)
      : in_force_(ranks),
        cut_(ranks),
        time_ns_(static_cast<std::size_t>(ranks)),
        wanted_(static_cast<std::size_t>(ranks)) {}

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!in_force_.measured(view)) return false;
    if (in_force_.follow_limits(view, shares)) return true;
    smooth(view);
    if (++steps_ < steps_between) return false;
    steps_ = 0;
    if (!correct()) return false;
    cut_(view, wanted_, shares);
    std::ranges::copy(shares, in_force_.shares().begin());
    fresh_ = true;
    return true;
  }

 private:
  void smooth(const View& view) {
    for (std::size_t r = 0; r < time_ns_.size(); ++r) {
      const auto reading = static_cast<double>(view.records[r].own_ns);
      time_ns_[r] += (fresh_ ? 1 : weight_of_newest) * (reading - time_ns_[r]);
    }
    fresh_ = false;
  }
  // Sets what each rank should have; false within the dead band.
  bool correct() {
    const double mean_ns = mean_time_ns();
    bool outside = false;
    for (std::size_t r = 0; r < wanted_.size(); ++r) {
      const auto share = static_cast<double>(in_force_.shares()[r]);
      const double asked = time_ns_[r] > 0 ? mean_ns / time_ns_[r] - 1 : 0;
      outside = outside || asked > dead_band || asked < -dead_band;
      wanted_[r] = share * (1 + std::clamp(asked, -most_change, most_change));
    }
    return outside;
  }
  // Over the ranks that have samples.
  double mean_time_ns() const {
    double sum = 0;
    double count = 0;
    for (const double time : time_ns_) {
      if (time == 0) continue;
      sum += time;
      count += 1;
    }
    return count > 0 ? sum / count : 0;
  }

  InForce in_force_;
  ProportionalCut cut_;
  std::vector<double> time_ns_;
  std::vector<double> wanted_;  // samples
  int steps_ = 0;               // since the last look
  bool fresh_ = true;           // no time at this partition yet
};

}  // namespace

std::unique_ptr<Sizer> make_proportional(int ranks) {
  return std::make_unique<Proportional>(ranks);
}

}  // namespace evenstep::lb
