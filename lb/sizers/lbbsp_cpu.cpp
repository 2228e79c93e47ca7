// `lbbsp-cpu`: C. Chen et al., "Semi-dynamic load balancing: efficient distributed learning in
// non-dedicated environments", SoCC 2020, the rule for CPU clusters. In each step
//
//     v_r  = the speed (samples a second) foreseen for the next step, by NARX from past speeds and
//            past and current CPU and memory availability
//     b_r  = B v_r / sum_i v_i
//
// Other predictors can take NARX's place, to compare them (lb/predictor.h).
#include <algorithm>

#include "lb/predictor.h"
#include "lb/sizers/shares.h"
#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

class LbbspCpu final : public Sizer {
 public:
  LbbspCpu(int ranks, std::string_view predictor)
      : cut_(ranks), speeds_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) predictors_.push_back(make_predictor(predictor));
  }

  bool propose(const View& view, std::span<Samples> shares) override {
    double fastest = 0;
    for (std::size_t r = 0; r < speeds_.size(); ++r) {
      const Record& record = view.records[r];
      Predictor& predictor = *predictors_[r];
      if (record.tells_speed()) predictor.observe(speed_of(record));
      predictor.see(record.cpu_available, record.memory_available);
      speeds_[r] = predictor.forecast();
      if (speeds_[r] == 0 && record.samples > 0) return false;
      fastest = std::max(fastest, speeds_[r]);
    }
    if (fastest == 0) return false;
    // A rank that never had samples is taken to be as fast as the fastest.
    for (double& speed : speeds_)
      if (speed == 0) speed = fastest;
    cut_(view, speeds_, shares);
    return true;
  }

 private:
  ProportionalCut cut_;
  std::vector<std::unique_ptr<Predictor>> predictors_;
  std::vector<double> speeds_;
};

}  // namespace

std::unique_ptr<Sizer> make_lbbsp_cpu(int ranks, std::string_view predictor) {
  return std::make_unique<LbbspCpu>(ranks, predictor);
}

}  // namespace evenstep::lb
