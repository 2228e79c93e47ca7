#include "lb/cost_model.h"

#include <algorithm>
#include <cmath>

namespace evenstep::lb {
namespace {

constexpr double least_gate = 0.10;       // below it a change is not worth a restart
constexpr double gate_deviations = 4;     // a reading further off is a surprise
constexpr double surprise_scatter = 0.6;  // of the gate: below 1 in 6 steps, spikes stay spikes
constexpr int memory_steps = 10;          // the mean forgets at 1/memory_steps a step
constexpr int variance_memory_steps = 40;
constexpr int least_patience = 2;  // surprises in a row that make a lasting change
constexpr int most_patience = 8;
constexpr int flap_steps = 10;   // a change so soon after the last one doubles the patience
constexpr int calm_steps = 100;  // so many steps without a change halve it
constexpr int short_memory_steps = 3;
constexpr double drift_off = 0.01;    // a reading this far off takes a side
constexpr int drift_steps = 6;        // readings on one side by then are no chance: 1 in 32
constexpr double other_share = 0.05;  // a share this far off need not cost the same a unit

}  // namespace

CostModel::News CostModel::observe(Nanoseconds own_ns, std::int64_t units) {
  const double rate = static_cast<double>(own_ns) / static_cast<double>(units);
  if (observations_ == 0) {
    units_ = static_cast<double>(units);
    quiet_steps_ = flap_steps + 1;
    start_from(rate, 1);
    return News::none;
  }
  if (++quiet_steps_ == calm_steps) {
    patience_ = std::max(patience_ / 2, least_patience);
    quiet_steps_ = flap_steps + 1;
  }
  const double off = rate / rate_ - 1;
  const double gate = std::max(least_gate, gate_deviations * std::sqrt(variance_));
  if (off >= -gate && off <= gate) {
    end_surprise(gate);
    follow(rate, off, static_cast<double>(units));
    return News::none;
  }
  if (surprises_ > 0 && (surprise_rate_ > rate_) != (rate > rate_)) end_surprise(gate);
  surprise_rate_ += (rate - surprise_rate_) / ++surprises_;
  if (surprises_ < patience_) return News::surprise;
  const bool flap = quiet_steps_ <= flap_steps;
  if (flap) {
    patience_ = std::min(2 * patience_, most_patience);
    for (int i = 0; i < surprises_; ++i) scatter(surprise_scatter * gate);
  }
  quiet_steps_ = 0;
  start_from(surprise_rate_, surprises_);
  return News::changed;
}

// The surprises were no lasting change: they count as scatter.
void CostModel::end_surprise(double gate) {
  for (; surprises_ > 0; --surprises_) scatter(surprise_scatter * gate);
  surprise_rate_ = 0;
}

void CostModel::scatter(double off) {
  scatter_readings_ = std::min(scatter_readings_ + 1, variance_memory_steps);
  variance_ += (off * off - variance_) / scatter_readings_;
}

void CostModel::follow(double rate, double off, double units) {
  scatter(off);
  if (is_other_share(units) || is_drift(off))
    observations_ = std::min(observations_, short_memory_steps);
  observations_ = std::min(observations_ + 1, memory_steps);
  rate_ += (rate - rate_) / observations_;
}

bool CostModel::is_other_share(double units) {
  if (std::abs(units / units_ - 1) <= other_share) return false;
  units_ = units;
  return true;
}

bool CostModel::is_drift(double off) {
  const int side = off > drift_off ? 1 : off < -drift_off ? -1 : 0;
  steps_on_side_ = side == side_ ? std::min(steps_on_side_ + 1, drift_steps) : 1;
  side_ = side;
  return side != 0 && steps_on_side_ >= drift_steps;
}

void CostModel::start_from(double rate, int observations) {
  rate_ = rate;
  surprise_rate_ = 0;
  surprises_ = 0;
  observations_ = observations;
}

Cost CostModel::cost() const {
  const double ps_per_sample = rate_ * 1000 * static_cast<double>(SizeTable::units_per_sample);
  return {.per_sample_ps = static_cast<Picoseconds>(
              std::min(ps_per_sample, static_cast<double>(largest_field)))};
}

double CostModel::relative_error() const {
  return std::sqrt(variance_ / (observations_ > 0 ? 2 * observations_ - 1 : 1));
}

}  // namespace evenstep::lb
