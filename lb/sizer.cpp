#include "lb/sizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace evenstep::lb {
namespace {

// BSP: B/N each, always.
class Off final : public Sizer {};

// Every rank is benchmarked at start, the batch is cut once. S. Moreno-Alvarez et al., "Training
// deep neural networks: a static load balancing approach" (2020), with FuPerMod's constant
// performance model: shares in proportion to measured speeds.
class Static final : public Sizer {
 public:
  bool propose_first(const View& view, std::span<Samples> shares) override {
    std::vector<RankCost> costs;
    for (const Record& record : view.records) {
      if (record.per_sample_ps == 0)
        throw std::invalid_argument(
            fmt::format("balance static: rank {} brought no benchmark of its speed to the start",
                        costs.size()));
      costs.push_back(
          {{record.fixed_ns, record.per_sample_ps, record.floor_ns}, record.least, record.most});
    }
    solve_partition({costs, view.batch, view.granule, view.table}, shares);
    return true;
  }
};

// Ours: the online cost model of each rank and the exact solver; the policy decides what is worth
// adopting. First version: every rank keeps at least one granule, so that all stay observed.
class Even final : public Sizer {
 public:
  explicit Even(int ranks) : costs_(static_cast<std::size_t>(ranks)) {}

  bool propose(const View& view, std::span<Samples> shares) override {
    if (!foresee(view)) return false;
    solve_partition({costs_, view.batch, view.granule, view.table}, shares);
    return true;
  }
  std::span<const RankCost> foreseen() const override { return costs_; }

 private:
  // False until every rank that had samples was observed twice.
  bool foresee(const View& view) {
    Picoseconds fastest = largest_field;
    for (std::size_t r = 0; r < costs_.size(); ++r) {
      const CostModel& model = view.models[r];
      if (model.observations() < 2 && view.records[r].samples > 0) return false;
      costs_[r] = {model.cost(), std::max(view.records[r].least, view.granule),
                   view.records[r].most};
      if (model.observations() > 0) fastest = std::min(fastest, model.cost().per_sample_ps);
    }
    // A rank never seen (fewer samples than ranks) is taken to be as fast as the fastest.
    for (RankCost& rank : costs_)
      if (rank.cost.per_sample_ps == 0) rank.cost.per_sample_ps = fastest;
    return fastest != largest_field;
  }

  std::vector<RankCost> costs_;
};

constexpr std::array<std::string_view, 3> names = {"off", "static", "even"};

}  // namespace

std::unique_ptr<Sizer> make_sizer(std::string_view name, int ranks) {
  if (name == "off") return std::make_unique<Off>();
  if (name == "static") return std::make_unique<Static>();
  if (name == "even") return std::make_unique<Even>(ranks);
  throw std::invalid_argument(
      fmt::format("unknown balance '{}'; choose one of {}", name, fmt::join(names, ", ")));
}

std::span<const std::string_view> sizer_names() { return names; }

}  // namespace evenstep::lb
