// `even`: ours. The online cost model of each rank and the exact solver; the policy decides what
// is worth adopting. Every rank keeps at least one granule, so that all stay observed.
#include <algorithm>
#include <array>
#include <bit>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

// Of the normal distribution, at 1 - 1/ranks: by powers of two, linear in between.
double quantile(int ranks) {
  constexpr std::array at = {0.0,  0.0,  0.67, 1.15, 1.53, 1.86, 2.15, 2.42, 2.66, 2.89,
                             3.10, 3.30, 3.49, 3.67, 3.84, 4.01, 4.17, 4.32, 4.47, 4.61};
  const auto power =
      std::min<std::size_t>(std::bit_width(static_cast<unsigned>(ranks)) - 1, at.size() - 2);
  const double between = static_cast<double>(ranks) / static_cast<double>(1U << power) - 1;
  return at[power] + (at[power + 1] - at[power]) * std::min(between, 1.0);
}

class Even final : public Sizer {
 public:
  explicit Even(int ranks) : quantile_(quantile(ranks)), costs_(static_cast<std::size_t>(ranks)) {}

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!foresee(view)) return false;
    allow_for_noise(view);
    finish_ = solve_partition({costs_, view.batch, view.granule, view.table, finish_}, shares);
    return true;
  }
  std::span<const RankCost> foreseen() const override { return costs_; }

 private:
  // False until every rank that had samples was observed twice.
  bool foresee(const View& view) {
    Picoseconds fastest = largest_field;
    for (std::size_t r = 0; r < costs_.size(); ++r) {
      const RankModel& model = view.models[r];
      if (model.observations() < 2 && view.records[r].samples > 0) return false;
      costs_[r] = {model.cost(view.pool), least_share(view, r), view.records[r].most};
      if (model.observations() > 0) fastest = std::min(fastest, costs_[r].cost.per_sample_ps);
    }
    // A rank never seen (fewer samples than ranks) is taken to be as fast as the fastest.
    for (RankCost& rank : costs_)
      if (rank.cost.per_sample_ps == 0) rank.cost.per_sample_ps = fastest;
    return fastest != largest_field;
  }

  // The slowest rank ends the step, and with N ranks it is mostly one whose time is at its quantile
  // of 1 - 1/N: ranks whose times scatter more than others' get less. Where the deviations differ
  // by little more than what they are uncertain, they are pulled to their mean (James and Stein
  // 1961; three times the uncertainty's square, as chance alone may come to twice that).
  void allow_for_noise(const View& view) {
    const auto ranks = static_cast<double>(costs_.size());
    double sum = 0;
    double squares = 0;
    double errors = 0;
    for (const RankModel& model : view.models) {
      const double deviation = model.deviation(view.pool);
      const double error = model.deviation_error(view.pool);
      sum += deviation;
      squares += deviation * deviation;
      errors += error * error;
    }
    const double mean = sum / ranks;
    const double spread = squares / ranks - mean * mean;
    const double real = spread > 0 ? std::max(0.0, 1 - 3 * errors / ranks / spread) : 0;
    for (std::size_t r = 0; r < costs_.size(); ++r) {
      const double deviation = mean + real * (view.models[r].deviation(view.pool) - mean);
      costs_[r].cost = times(costs_[r].cost, 1 + quantile_ * deviation);
    }
  }

  double quantile_;
  std::vector<RankCost> costs_;
  Nanoseconds finish_ = 0;  // of the last proposal
};

}  // namespace

std::unique_ptr<Sizer> make_even(int ranks) { return std::make_unique<Even>(ranks); }

}  // namespace evenstep::lb
