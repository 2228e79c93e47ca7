// N virtual ranks on a trace, driving the very same balancer that a job does. All sizers asked for
// go through the trace side by side, so that only one step of it is held at a time.
#pragma once

#include <deque>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "lb/balancer.h"
#include "lb/trace.h"

namespace evenstep::lb {

struct SimulationOptions {
  Samples batch = 0;
  Samples granule = 1;
  std::int64_t steps = 2000;
  NoiseModel noise;
  double cold = 0;  ///< the first step at a size new to a rank takes so many times longer in
                    ///< addition
  int lag = 0;
  std::uint64_t seed = 1;
  std::string predictor = "narx";  ///< of `lbbsp-cpu`
};

/// What one sizer achieved. Times in seconds.
struct SimulationResult {
  double mean_step_seconds = 0;
  double samples_per_second = 0;
  double efficiency = 0;    ///< oracle's time over its own; the oracle suffers the same noise
  double speedup = 0;       ///< off's time over its own
  double load_balance = 0;  ///< mean over steps of mean/max own time
  int resizes = 0;
  double worst_window = 0;  ///< lowest speed-up over any 50 successive steps
  /// For each step at which the oracle's time changes by over 20 %: steps until within 5 % of it,
  /// or until the next such step or the end.
  std::vector<std::int64_t> recover_steps;
};

/// The true course of a trace, one step at a time: costs, noise, and what `off` and the oracle make
/// of them. The same options and trace give the same course, in the simulator and in a replay.
class Course {
 public:
  /// At step 0. `trace` must be at its start and outlive the course.
  Course(Trace& trace, const SimulationOptions& options);
  void advance();

  std::int64_t step() const { return step_; }
  std::span<const RankState> states() const { return states_; }
  /// Of the step to come: what ranks see of it is known at this one's end.
  std::span<const RankState> next_states() const { return next_states_; }
  /// Of one rank in this step.
  double own_ns(std::size_t rank, Samples share) const;
  double own_ns_before_noise(std::size_t rank, Samples share) const;

  double oracle_seconds() const { return oracle_seconds_; }
  double oracle_seconds_before_noise() const { return oracle_plain_seconds_; }
  double off_seconds() const { return off_seconds_; }

 private:
  void enter_step();
  bool costs_changed();
  void draw_noise();
  double seconds_at(std::span<const Samples> shares) const;

  Trace& trace_;
  SimulationOptions options_;
  std::mt19937_64 random_;
  std::lognormal_distribution<double> scatter_;
  std::bernoulli_distribution spike_;
  std::int64_t step_ = 0;
  std::vector<RankState> states_;
  std::vector<RankState> next_states_;
  std::vector<double> noise_;
  std::vector<RankCost> costs_;
  std::vector<Samples> oracle_shares_;
  std::vector<Samples> off_shares_;
  double oracle_seconds_ = 0;
  double oracle_plain_seconds_ = 0;
  double off_seconds_ = 0;
};

/// The sizes that one rank has run: `cold` makes the first step at a new one dear.
class ColdSizes {
 public:
  explicit ColdSizes(double cold) : cold_(cold) {}
  /// By how much a step at this share takes longer now; from then on the share is no longer new.
  double factor(Samples share) {
    return cold_ > 0 && share > 0 && sizes_.insert(share).second ? 1 + cold_ : 1;
  }

 private:
  double cold_;
  std::unordered_set<Samples> sizes_;
};

/// Keeps the account of one sizer over a course.
class Score {
 public:
  explicit Score(const SimulationOptions& options) : options_(options) {}
  /// The step that `course` is at. `step_seconds`: how long it took; at least the longest own time.
  void add(const Course& course, std::span<const Samples> shares, std::span<const double> own_ns,
           double step_seconds);
  SimulationResult result(int resizes) const;

 private:
  struct Times {
    double own = 0;
    double off = 0;
  };
  void follow_changes(const Course& course, double plain_seconds);
  void follow_window(Times step);

  SimulationOptions options_;
  std::int64_t steps_ = 0;
  double total_ = 0;
  double oracle_ = 0;
  double off_ = 0;
  double load_balance_ = 0;
  std::deque<Times> window_;
  Times in_window_;
  double worst_window_ = 0;  // 0: no window yet
  double oracle_before_ = 0;
  std::int64_t changed_at_ = -1;  // -1: recovered
  std::vector<std::int64_t> recover_steps_;
};

/// What a rank that benchmarked itself knows of its cost before the first step.
Record start_record(const RankState& state);

/// Runs each of `sizers` over the same course; results in their order. Throws what the balancer
/// throws.
std::vector<SimulationResult> simulate(Trace& trace, const SimulationOptions& options,
                                       std::span<const std::string> sizers);

}  // namespace evenstep::lb
