// `dbs`: Q. Ye et al., "DBS: dynamic batch size for distributed deep neural network training",
// 2020. Once an epoch, from each rank's mean time t_r in it:
//
//     b_r' = B (b_r / t_r) / sum_i (b_i / t_i)
#include <algorithm>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

class Dbs final : public Sizer {
 public:
  Dbs(int ranks, int epoch_steps) : epoch_steps_(epoch_steps), in_force_(ranks), cut_(ranks) {
    totals_.resize(static_cast<std::size_t>(ranks));
    speeds_.resize(totals_.size());
  }

  bool propose(const View& view, std::span<Samples> shares) override {
    if (in_force_.measured(view)) {
      if (in_force_.follow_limits(view, shares)) return true;
      add(view);
    }
    if (++steps_ < epoch_steps_) return false;
    steps_ = 0;
    const bool known = find_speeds();
    std::ranges::fill(totals_, Total{});
    if (!known) return false;
    cut_(view, speeds_, shares);
    std::ranges::copy(shares, in_force_.shares().begin());
    return true;
  }

 private:
  struct Total {
    double samples = 0;
    double time_ns = 0;
  };

  void add(const View& view) {
    for (std::size_t r = 0; r < totals_.size(); ++r) {
      totals_[r].samples += static_cast<double>(view.records[r].samples);
      totals_[r].time_ns += static_cast<double>(view.records[r].own_ns);
    }
  }
  // Ranks without samples in the epoch count as the fastest. False: none had any.
  bool find_speeds() {
    double fastest = 0;
    for (std::size_t r = 0; r < totals_.size(); ++r) {
      const Total& total = totals_[r];
      speeds_[r] = total.samples > 0 ? total.samples / total.time_ns : 0;
      fastest = std::max(fastest, speeds_[r]);
    }
    for (double& speed : speeds_)
      if (speed == 0) speed = fastest;
    return fastest > 0;
  }

  int epoch_steps_;
  InForce in_force_;
  ProportionalCut cut_;
  std::vector<Total> totals_;
  std::vector<double> speeds_;
  int steps_ = 0;  // of the epoch so far
};

}  // namespace

std::unique_ptr<Sizer> make_dbs(int ranks, int epoch_steps) {
  return std::make_unique<Dbs>(ranks, epoch_steps);
}

}  // namespace evenstep::lb
