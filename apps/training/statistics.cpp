#include "training/statistics.h"

#include <algorithm>

namespace evenstep::train {
namespace {

constexpr double seconds_per_ns = 1e-9;

}  // namespace

Statistics::Statistics(std::int64_t expected_steps, int ranks)
    : skip_(expected_steps < 30 ? expected_steps / 3 : 10),
      own_ns_(static_cast<std::size_t>(ranks)),
      shares_(static_cast<std::size_t>(ranks)) {}

void Statistics::add(const Session& session, std::int64_t batch) {
  const auto reports = session.reports();
  std::int64_t sum = 0;
  std::int64_t longest = 1;
  for (std::size_t r = 0; r < reports.size(); ++r) {
    own_ns_[r] += reports[r].own_ns;
    shares_[r] += reports[r].samples;
    sum += reports[r].own_ns;
    longest = std::max(longest, reports[r].own_ns);
  }
  last_load_balance_ =
      static_cast<double>(sum) / static_cast<double>(reports.size()) / static_cast<double>(longest);
  if (steps_ > 0) load_balance_sum_ += last_load_balance_;

  std::int64_t step_ns = session.last_wait_ns();
  wait_ns_ += step_ns;
  step_ns += session.own_ns();
  for (std::size_t p = 0; p < phases; ++p) phase_ns_[p] += session.phase_ns()[p];
  last_step_seconds_ = seconds_per_ns * static_cast<double>(step_ns);
  samples_ += batch;
  if (++steps_ > skip_) {
    counted_samples_ += batch;
    counted_ns_ += step_ns;
  }
}

double Statistics::samples_per_second() const {
  return counted_ns_ == 0 ? 0
                          : static_cast<double>(counted_samples_) /
                                (seconds_per_ns * static_cast<double>(counted_ns_));
}

double Statistics::load_balance() const {
  return steps_ < 2 ? last_load_balance_ : load_balance_sum_ / static_cast<double>(steps_ - 1);
}

double Statistics::per_step(std::int64_t total_ns) const {
  return seconds_per_ns * static_cast<double>(total_ns) /
         static_cast<double>(std::max<std::int64_t>(1, steps_));
}

std::vector<double> Statistics::own_seconds() const {
  std::vector<double> seconds;
  for (std::int64_t own : own_ns_) seconds.push_back(per_step(own));
  return seconds;
}

std::vector<double> Statistics::mean_share() const {
  std::vector<double> shares;
  for (std::int64_t share : shares_)
    shares.push_back(static_cast<double>(share) /
                     static_cast<double>(std::max<std::int64_t>(1, steps_)));
  return shares;
}

double Statistics::phase_seconds(Phase phase) const {
  return per_step(phase_ns_[static_cast<std::size_t>(phase)]);
}

double Statistics::wait_seconds() const { return per_step(wait_ns_); }

}  // namespace evenstep::train
