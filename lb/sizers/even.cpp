// `even`: ours. The online cost model of each rank and the exact solver; the policy decides what
// is worth adopting. Every rank keeps at least one granule, so that all stay observed.
#include <algorithm>

#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

class Even final : public Sizer {
 public:
  explicit Even(int ranks) : costs_(static_cast<std::size_t>(ranks)) {}

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!foresee(view)) return false;
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

  std::vector<RankCost> costs_;
  Nanoseconds finish_ = 0;  // of the last proposal
};

}  // namespace

std::unique_ptr<Sizer> make_even(int ranks) { return std::make_unique<Even>(ranks); }

}  // namespace evenstep::lb
