// `lbbsp-gpu-2020`: C. Chen et al., "Semi-dynamic load balancing: efficient distributed learning in
// non-dedicated environments", SoCC 2020, the rule for GPU clusters. No model: times are averaged
// over a window of steps, then one pair of ranks changes:
//
//     straggler = the rank with the longest mean time
//     leader    = the rank with the shortest mean time that has memory to spare (share < most)
//     b_straggler -= step,  b_leader += step
//
// Oscillation: a rank that was the leader of the last move is now the straggler, or the other way
// about. Then the step is halved and the window doubled, so that noise and too large a step do not
// go on swapping the two.
#include <algorithm>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

constexpr Samples first_step_samples = 5;
constexpr int first_window_steps = 5;
constexpr int most_window_steps = 40;

class LbbspGpu2020 final : public Sizer {
 public:
  explicit LbbspGpu2020(int ranks) : in_force_(ranks), time_ns_(static_cast<std::size_t>(ranks)) {}

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!in_force_.measured(view)) return false;
    if (in_force_.follow_limits(view, shares)) return true;
    for (std::size_t r = 0; r < time_ns_.size(); ++r) time_ns_[r] += view.records[r].own_ns;
    if (++steps_ < window_steps_) return false;
    const bool moved = move_one_pair(view);
    std::ranges::fill(time_ns_, 0);
    steps_ = 0;
    if (moved) std::ranges::copy(in_force_.shares(), shares.begin());
    return moved;
  }

 private:
  bool move_one_pair(const View& view) {
    const int straggler = find_straggler(view);
    const int leader = find_leader(view);
    if (straggler < 0 || leader < 0 || straggler == leader) return false;
    const auto from = static_cast<std::size_t>(straggler);
    const auto to = static_cast<std::size_t>(leader);
    if (time_ns_[from] <= time_ns_[to]) return false;
    if (straggler == last_leader_ || leader == last_straggler_) calm_down(view.granule);
    const Samples moved =
        move_samples(view, from, to, std::max(step_samples_, view.granule), in_force_.shares());
    last_straggler_ = straggler;
    last_leader_ = leader;
    return moved > 0;
  }

  int find_straggler(const View& view) const {
    int found = -1;
    for (std::size_t r = 0; r < time_ns_.size(); ++r) {
      if (in_force_.shares()[r] - view.granule < least_share(view, r)) continue;
      if (found < 0 || time_ns_[r] > time_ns_[static_cast<std::size_t>(found)])
        found = static_cast<int>(r);
    }
    return found;
  }
  int find_leader(const View& view) const {
    int found = -1;
    for (std::size_t r = 0; r < time_ns_.size(); ++r) {
      if (in_force_.shares()[r] + view.granule > view.records[r].most) continue;
      if (found < 0 || time_ns_[r] < time_ns_[static_cast<std::size_t>(found)])
        found = static_cast<int>(r);
    }
    return found;
  }
  void calm_down(Samples granule) {
    step_samples_ = std::max(granule, step_samples_ / 2);
    window_steps_ = std::min(most_window_steps, 2 * window_steps_);
  }

  InForce in_force_;
  std::vector<Nanoseconds> time_ns_;  // summed over the window
  int steps_ = 0;                     // of the window so far
  int window_steps_ = first_window_steps;
  Samples step_samples_ = first_step_samples;
  int last_straggler_ = -1;
  int last_leader_ = -1;
};

}  // namespace

std::unique_ptr<Sizer> make_lbbsp_gpu_2020(int ranks) {
  return std::make_unique<LbbspGpu2020>(ranks);
}

}  // namespace evenstep::lb
