#include "sim/log_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/median.h"
#include "evenstep/error.h"
#include "sim/log_reader.h"

namespace evenstep::sim {
namespace {

constexpr double window_steps = 50;
constexpr double least_steps = 8;            // for a line
constexpr double least_share_spread = 0.03;  // of the mean share
constexpr double most_slope_error = 0.1;     // standard error, of the mean time
constexpr double least_slope = 0.05;         // so that the fixed cost is at most 19 times the rest
constexpr double usual_noise = 0.03;         // where the log does not tell

}  // namespace

// The costs of each window in turn, the last one for ever.
class RunLog::Windows final : public lb::Trace {
 public:
  explicit Windows(std::vector<std::vector<lb::RankState>> windows)
      : windows_(std::move(windows)) {}
  int ranks() const override { return static_cast<int>(windows_.front().size()); }
  void next(std::span<lb::RankState> states) override {
    const auto window = static_cast<std::size_t>(step_++ / static_cast<std::int64_t>(window_steps));
    std::ranges::copy(windows_[std::min(window, windows_.size() - 1)], states.begin());
  }

 private:
  std::vector<std::vector<lb::RankState>> windows_;
  std::int64_t step_ = 0;
};

RunLog::RunLog(const std::string& path) {
  LogReader reader(path);
  // The first step pays for start-up: it says nothing of speeds.
  if (!reader.next() || !reader.next())
    throw Error(
        fmt::format("{} has under 2 steps, and the first one pays for start-up; log more", path));
  open_.assign(reader.shares().size(), {});
  steps_ = 1;
  do add_step(reader.shares(), reader.own_seconds());
  while (reader.next());
  close_window();
  fill_gaps(path);
}

void RunLog::add_step(const std::vector<double>& shares, const std::vector<double>& seconds) {
  if (!open_.empty() && steps_ > 1 && (steps_ - 1) % static_cast<std::int64_t>(window_steps) == 0)
    close_window();
  double batch = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    batch += shares[r];
    if (shares[r] == 0) continue;
    Sums& sums = open_[r];
    sums.steps += 1;
    sums.share += shares[r];
    sums.seconds += seconds[r];
    sums.share_squared += shares[r] * shares[r];
    sums.share_seconds += shares[r] * seconds[r];
    sums.seconds_squared += seconds[r] * seconds[r];
    if (!shares_before_.empty() && shares_before_[r] == shares[r]) {
      const double relative =
          2 * (seconds[r] - seconds_before_[r]) / (seconds[r] + seconds_before_[r]);
      sums.pairs += 1;
      sums.pair_differences += std::abs(relative);
    }
  }
  shares_before_ = shares;
  seconds_before_ = seconds;
  global_batch_ = std::max(global_batch_, static_cast<std::int64_t>(batch));
  ++steps_;
}

void RunLog::close_window() {
  std::vector<Fit> fits;
  for (const Sums& sums : open_) fits.push_back(fit(sums));
  windows_.push_back(std::move(fits));
  open_.assign(open_.size(), {});
}

RunLog::Fit RunLog::fit(const Sums& sums) {
  Fit fit;
  if (sums.steps == 0) return fit;
  fit.share = sums.share / sums.steps;
  fit.seconds = sums.seconds / sums.steps;
  // Two readings of a normal scatter differ by 2/sqrt(pi) of it on average. Not by their mean
  // square: a lone spike would count for all.
  if (sums.pairs > 0) fit.scatter = sums.pair_differences / sums.pairs * std::sqrt(M_PI) / 2;
  const double shares = sums.share_squared - sums.share * fit.share;
  if (sums.steps < least_steps || shares < sums.steps * std::pow(least_share_spread * fit.share, 2))
    return fit;
  const double both = sums.share_seconds - sums.share * fit.seconds;
  const double times = sums.seconds_squared - sums.seconds * fit.seconds;
  const double slope = both / shares;
  const double to_relative = fit.share / fit.seconds;
  const double rest = std::max(0.0, times - slope * both) / (sums.steps - 2);
  const double error = std::max(std::sqrt(rest / shares) * to_relative, 1e-6);
  const double relative_slope = std::min(1.0, slope * to_relative);  // no fixed cost below 0
  if (error > most_slope_error || relative_slope < least_slope) return fit;
  fit.fixed_samples = fit.share * (1 - relative_slope) / relative_slope;
  fit.weight = 1 / (error * error);
  return fit;
}

// A window in which a rank had no samples takes the one before it, or after it.
void RunLog::fill_gaps(const std::string& path) {
  for (std::size_t r = 0; r < windows_.front().size(); ++r) {
    const auto known = [&](const std::vector<Fit>& window) { return window[r].share > 0; };
    const auto first = std::ranges::find_if(windows_, known);
    if (first == windows_.end())
      throw Error(
          fmt::format("{}: rank {} never has samples; nothing is known of its cost", path, r));
    Fit last = (*first)[r];
    for (auto& window : windows_) {
      if (known(window)) last = window[r];
      window[r] = last;
    }
  }
}

double RunLog::fixed_samples(std::size_t rank, Split split) const {
  double weights = 0;
  double weighted = 0;
  double share = 0;
  for (const auto& window : windows_) {
    weights += window[rank].weight;
    weighted += window[rank].weight * window[rank].fixed_samples;
    share += window[rank].share / static_cast<double>(windows_.size());
  }
  if (weights > 0) return weighted / weights;
  return split == Split::half_fixed ? share : 0;
}

int RunLog::ranks_unknown() const {
  int unknown = 0;
  for (std::size_t r = 0; r < windows_.front().size(); ++r)
    unknown +=
        std::ranges::none_of(windows_, [&](const auto& w) { return w[r].weight > 0; }) ? 1 : 0;
  return unknown;
}

double RunLog::noise() const {
  std::vector<double> scatters;
  for (const auto& window : windows_)
    for (const Fit& fit : window)
      if (fit.scatter >= 0) scatters.push_back(fit.scatter);
  return scatters.empty() ? usual_noise : median(scatters);
}

std::unique_ptr<lb::Trace> RunLog::trace(Split split) const {
  std::vector<std::vector<lb::RankState>> states(
      windows_.size(), std::vector<lb::RankState>(windows_.front().size()));
  for (std::size_t r = 0; r < windows_.front().size(); ++r) {
    const double fixed = fixed_samples(r, split);
    for (std::size_t w = 0; w < windows_.size(); ++w) {
      const Fit& fit = windows_[w][r];
      const double sample_seconds = fit.seconds / (fit.share + fixed);
      states[w][r].cost = {std::max<lb::Nanoseconds>(1, std::llround(1e9 * fixed * sample_seconds)),
                           std::llround(1e12 * std::min(sample_seconds, 280.0)), 0};
    }
  }
  return std::make_unique<Windows>(std::move(states));
}

}  // namespace evenstep::sim
