// `static`: every rank is benchmarked at start, the batch is cut once. S. Moreno-Alvarez et al.,
// "Training deep neural networks: a static load balancing approach" (2020), with FuPerMod's
// constant performance model: shares in proportion to measured speeds.
#include <fmt/format.h>

#include <stdexcept>

#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

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

}  // namespace

std::unique_ptr<Sizer> make_static() { return std::make_unique<Static>(); }

}  // namespace evenstep::lb
