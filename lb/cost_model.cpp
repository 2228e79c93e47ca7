#include "lb/cost_model.h"

#include <algorithm>
#include <cmath>

namespace evenstep::lb {
namespace {

constexpr int most_observations = 100;

constexpr double least_gain = 0.02;  // a memory of about 100 steps
constexpr double most_gain = 0.6;
constexpr double gain_step = 0.03;
constexpr double least_trending_gain = 0.07;  // below it there is no drift to speak of
constexpr double trend_share = 0.25;
constexpr double trend_memory = 0.995;
constexpr double trend_fading = 0.9;

constexpr int variance_memory_steps = 50;
constexpr double least_variance = 1e-8;   // where times do not scatter at all
constexpr double least_gate = 0.10;       // below it a change is not worth a restart
constexpr double gate_deviations = 4;     // a reading further off is a surprise
constexpr double sure_deviations = 6;     // a reading this far off is no chance, ever
constexpr double surprise_scatter = 0.6;  // of the gate: how a spike counts as scatter

constexpr double few = 0.25;  // of the size at which a rank was fast

constexpr int calm_steps = 1000;  // so many steps without a fall halve the patience

constexpr double least_resize = 0.2;  // of a share, that tells fixed cost from speed
constexpr double most_fixed = 0.8;    // of a step's time
constexpr double least_doubt = 0.01;
constexpr double negative_fixed = -0.1;  // further below zero, something else happened

}  // namespace

CostModel::News CostModel::observe(Nanoseconds own_ns, std::int64_t units, Surprises& surprises) {
  const auto time = static_cast<double>(own_ns);
  const auto size = static_cast<double>(units);
  if (observations_ == 0) {
    last_size_ = size;
    start_from(time / size, 1);
    return News::none;
  }
  learn_fixed(time, size);
  last_size_ = size;
  count_steps(surprises);
  const double rate = (time - fixed_) / size;
  const double off = rate / forecast() - 1;
  const double most_off = gate();
  const bool ended = surprise_rate_ > rate_ ? off <= most_off : off >= -most_off;
  if (surprises_ > 0 && ended) {
    if (is_lapse()) return News::none;
    end_surprises(most_off, surprises);
  }
  lapsed_ = false;
  if (off < -most_off || off > most_off) return take_surprise(rate, off > 0, surprises);
  follow(rate, off);
  return News::none;
}

// Just after a re-size two points of t = fixed + rate w are known, and the step
// between them tells how much of the time is fixed, the better the longer the
// step. Never else: equal finish times would drag the estimate upwards.
void CostModel::learn_fixed(double time, double size) {
  fixed_ = std::min(fixed_, most_fixed * time);
  const double step = std::abs(size - last_size_);
  if (observations_ < 2 || step < least_resize * last_size_) return;
  const double before = fixed_ + forecast() * last_size_;  // what the former share would take now
  const double found = (before * size - time * last_size_) / (size - last_size_);
  if (found < negative_fixed * time || found > most_fixed * std::min(time, before)) return;
  const double error = (deviation() * time * last_size_ + relative_error() * before * size) / step;
  const double doubt = fixed_doubt_ * before;
  const double weight = doubt * doubt / (doubt * doubt + error * error);
  fixed_ = std::max(0.0, fixed_ + weight * (found - fixed_));
  fixed_doubt_ = std::max(fixed_doubt_ * std::sqrt(1 - weight), least_doubt);
  rate_ = (before - fixed_) / last_size_ / (1 + trend_);
}

void CostModel::count_steps(Surprises& surprises) {
  steps_since_fall_ = std::min(steps_since_fall_ + 1, longest_count);
  steps_since_recovery_ = std::min(steps_since_recovery_ + 1, longest_count);
  if (recovery_steps_ > 0 && steps_since_recovery_ == Surprises::relapse_steps + 1)
    surprises.recovery_ended(steps_since_recovery_);
  if (steps_since_fall_ % calm_steps == 0)
    patience_ = std::max(patience_ / 2, Surprises::least_patience);
}

CostModel::News CostModel::take_surprise(double rate, bool slower, Surprises& surprises) {
  if (surprises_ == 0) surprise_size_ = last_size_;
  surprise_rate_ += (rate - surprise_rate_) / ++surprises_;
  const int needed =
      slower ? surprises.needed_to_be_slower() : std::max(patience_, surprises.patience());
  if (surprises_ < needed) return slower ? News::seems_slower : News::seems_faster;
  if (slower) {
    surprises.ended(true);
    if (steps_since_recovery_ <= Surprises::relapse_steps)
      relapsed(recovery_steps_ + steps_since_recovery_ - surprises_, surprises);
    steps_since_fall_ = 0;
    remember_good_rate();
  } else {
    steps_since_recovery_ = 0;
    recovery_steps_ = surprises_;
    if (is_good_again()) surprise_rate_ = good_rate_;
  }
  start_from(surprise_rate_, surprises_);
  return slower ? News::is_slower : News::is_faster;
}

void CostModel::remember_good_rate() {
  if (good_rate_ > 0 && rate_ > good_rate_) return;  // a fall from where it had fallen to
  good_rate_ = rate_;
  good_size_ = surprise_size_;
}

// A rank that was slow is left with few samples. When it recovers, its time is mostly fixed cost,
// and what it can do with many is better known from before.
bool CostModel::is_good_again() const {
  return last_size_ < few * good_size_ && surprise_rate_ * surprise_rate_ < rate_ * good_rate_;
}

// One slow step while a rank recovers may be a spike, and ends nothing.
bool CostModel::is_lapse() {
  const bool first = surprises_ > 1 && surprise_rate_ < rate_ && !lapsed_;
  lapsed_ = true;
  return first;
}

// They were no lasting change.
void CostModel::end_surprises(double gate, Surprises& surprises) {
  if (surprise_rate_ > rate_)
    surprises.ended(false);
  else if (surprises_ > 1)
    relapsed(surprises_, surprises);
  if (surprises_ == 1) scatter(surprise_scatter * gate);
  surprises_ = 0;
  surprise_rate_ = 0;
}

// Fast for so many steps, and slow again.
void CostModel::relapsed(int fast_steps, Surprises& surprises) {
  patience_ = std::clamp(fast_steps + fast_steps / 2 + 2, patience_, Surprises::most_patience);
  surprises.recovery_ended(fast_steps);
}

void CostModel::follow(double rate, double off) {
  const double agreement = std::clamp(off * last_off_ / variance_, -1.0, 1.0);
  gain_ = std::clamp(gain_ * (1 + gain_step * agreement), least_gain, most_gain);
  last_off_ = off;
  scatter(off);
  observations_ = std::min(observations_ + 1, most_observations);
  const double expected = forecast();
  rate_ = expected + std::max(gain_, 1.0 / observations_) * (rate - expected);
  trend_ = gain_ > least_trending_gain ? trend_memory * trend_ + trend_share * gain_ * gain_ * off
                                       : trend_fading * trend_;
}

void CostModel::scatter(double off) {
  scatter_readings_ = std::min(scatter_readings_ + 1, variance_memory_steps);
  variance_ = std::max(variance_ + (off * off - variance_) / scatter_readings_, least_variance);
}

void CostModel::start_from(double rate, int observations) {
  rate_ = rate;
  trend_ = 0;
  last_off_ = 0;
  surprise_rate_ = 0;
  surprises_ = 0;
  observations_ = observations;
}

double CostModel::gate() const { return std::max(least_gate, gate_deviations * deviation()); }

double CostModel::deviation() const { return std::sqrt(variance_); }

double CostModel::deviation_error() const {
  return deviation() / std::sqrt(2.0 * scatter_readings_);
}

Cost CostModel::cost(const Surprises& surprises) const {
  if (observations_ == 0) return {};
  double rate = forecast();
  const bool sure = surprise_rate_ > rate * (1 + sure_deviations * deviation());
  if (sure && surprises.believe(surprise_rate_ / rate)) rate = surprise_rate_;
  constexpr double ps_per_sample = 1000.0 * SizeTable::units_per_sample;  // of 1 ns per unit
  constexpr auto most = static_cast<double>(largest_field);
  return {.fixed_ns = static_cast<Nanoseconds>(fixed_),
          .per_sample_ps = static_cast<Picoseconds>(std::clamp(rate * ps_per_sample, 1.0, most))};
}

double CostModel::relative_error() const {
  const double fewness = observations_ > 0 ? 1.0 / (2 * observations_ - 1) : 1;
  return deviation() * std::sqrt(std::max(gain_ / (2 - gain_), fewness));
}

double CostModel::forecast_error(Nanoseconds own_ns, std::int64_t units) const {
  if (observations_ == 0) return 0;
  return static_cast<double>(own_ns) / (fixed_ + forecast() * static_cast<double>(units)) - 1;
}

}  // namespace evenstep::lb
