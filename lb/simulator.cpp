#include "lb/simulator.h"

#include <algorithm>
#include <cmath>

namespace evenstep::lb {
namespace {

constexpr double seconds_per_ns = 1e-9;
constexpr std::size_t window_steps = 50;
constexpr double oracle_change = 0.20;
constexpr double recovered_within = 1.05;

const SizeTable linear;

bool same_cost(const Cost& a, const Cost& b) {
  return a.fixed_ns == b.fixed_ns && a.per_sample_ps == b.per_sample_ps && a.floor_ns == b.floor_ns;
}

BalancerOptions balancer_options(const SimulationOptions& options, const std::string& sizer) {
  BalancerOptions balancer;
  balancer.sizer = sizer;
  balancer.batch = options.batch;
  balancer.granule = options.granule;
  balancer.lag = options.lag;
  balancer.predictor = options.predictor;
  return balancer;
}

// One sizer's job.
class VirtualJob {
 public:
  VirtualJob(const Course& course, const SimulationOptions& options, const std::string& sizer)
      : options_(options),
        records_(start_records(course)),
        balancer_(balancer_options(options, sizer), records_),
        in_force_(static_cast<std::size_t>(options.lag) + 1, partition()),
        own_ns_(records_.size()),
        cold_sizes_(records_.size(), ColdSizes(options.cold)),
        score_(options) {}

  void run_step(const Course& course) {
    const std::vector<Samples>& shares = in_force_.front();
    for (std::size_t r = 0; r < shares.size(); ++r) run_rank(course, r, shares[r]);
    score_.add(course, shares, own_ns_, seconds_per_ns * *std::ranges::max_element(own_ns_));
    resizes_ = balancer_.resizes();  // the last step's decision steers none
    balancer_.observe(records_);
    std::rotate(in_force_.begin(), in_force_.begin() + 1, in_force_.end());
    std::ranges::copy(balancer_.partition(), in_force_.back().begin());
  }
  SimulationResult result() const { return score_.result(resizes_); }

 private:
  static std::vector<Record> start_records(const Course& course) {
    std::vector<Record> records;
    for (const RankState& state : course.states()) records.push_back(start_record(state));
    return records;
  }
  std::vector<Samples> partition() const {
    return {balancer_.partition().begin(), balancer_.partition().end()};
  }
  void run_rank(const Course& course, std::size_t r, Samples share) {
    own_ns_[r] = course.own_ns(r, share) * cold_sizes_[r].factor(share);
    Record& record = records_[r];
    record.step = static_cast<std::uint32_t>(course.step() & 0xffffff);
    record.samples = share;
    record.own_ns = static_cast<Nanoseconds>(own_ns_[r]);
    const RankState& next = course.next_states()[r];
    record.cpu_available = encode_cores(next.cpu_seen);
    record.memory_available = encode_mebibytes(next.memory_seen);
  }

  SimulationOptions options_;
  std::vector<Record> records_;
  Balancer balancer_;
  std::vector<std::vector<Samples>> in_force_;  // of this step, and of the lag's
  std::vector<double> own_ns_;
  std::vector<ColdSizes> cold_sizes_;  // by rank
  Score score_;
  int resizes_ = 0;
};

}  // namespace

Course::Course(Trace& trace, const SimulationOptions& options)
    : trace_(trace),
      options_(options),
      random_(options.seed * 7919 + 17),
      scatter_(-options.noise.sigma * options.noise.sigma / 2, options.noise.sigma),
      spike_(options.noise.spike_probability),
      states_(static_cast<std::size_t>(trace.ranks())),
      next_states_(states_.size()),
      noise_(states_.size(), 1.0),
      costs_(states_.size()),
      oracle_shares_(states_.size()) {
  trace_.next(states_);
  trace_.next(next_states_);
  const std::vector<Record> no_news(states_.size());
  const Balancer off(balancer_options(options, "off"), no_news);
  off_shares_.assign(off.partition().begin(), off.partition().end());
  enter_step();
}

void Course::advance() {
  ++step_;
  std::swap(states_, next_states_);
  trace_.next(next_states_);
  enter_step();
}

void Course::enter_step() {
  draw_noise();
  if (costs_changed() || step_ == 0)
    oracle_plain_seconds_ =
        seconds_per_ns * static_cast<double>(solve_partition(
                             {costs_, options_.batch, options_.granule, nullptr}, oracle_shares_));
  oracle_seconds_ = seconds_at(oracle_shares_);
  off_seconds_ = seconds_at(off_shares_);
}

bool Course::costs_changed() {
  bool changed = false;
  for (std::size_t r = 0; r < states_.size(); ++r) {
    changed = changed || !same_cost(costs_[r].cost, states_[r].cost);
    costs_[r].cost = states_[r].cost;
  }
  return changed;
}

void Course::draw_noise() {
  for (double& factor : noise_) {
    factor = options_.noise.sigma > 0 ? scatter_(random_) : 1;
    if (options_.noise.spike_probability > 0 && spike_(random_))
      factor *= options_.noise.spike_factor;
  }
}

double Course::own_ns_before_noise(std::size_t rank, Samples share) const {
  return static_cast<double>(finish_ns(states_[rank].cost, linear, share));
}

double Course::own_ns(std::size_t rank, Samples share) const {
  return own_ns_before_noise(rank, share) * noise_[rank];
}

double Course::seconds_at(std::span<const Samples> shares) const {
  double longest = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) longest = std::max(longest, own_ns(r, shares[r]));
  return seconds_per_ns * longest;
}

void Score::add(const Course& course, std::span<const Samples> shares,
                std::span<const double> own_ns, double step_seconds) {
  double sum = 0;
  double longest = 0;
  double plain = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    sum += own_ns[r];
    longest = std::max(longest, own_ns[r]);
    plain = std::max(plain, course.own_ns_before_noise(r, shares[r]));
  }
  ++steps_;
  total_ += step_seconds;
  oracle_ += course.oracle_seconds();
  off_ += course.off_seconds();
  load_balance_ += sum / static_cast<double>(shares.size()) / longest;
  follow_window({step_seconds, course.off_seconds()});
  follow_changes(course, seconds_per_ns * plain);
}

void Score::follow_changes(const Course& course, double plain_seconds) {
  const double oracle = course.oracle_seconds_before_noise();
  const bool changed = oracle_before_ > 0 && std::abs(oracle / oracle_before_ - 1) > oracle_change;
  oracle_before_ = oracle;
  if (changed) {
    if (changed_at_ >= 0) recover_steps_.push_back(course.step() - changed_at_);
    changed_at_ = course.step();
  }
  if (changed_at_ >= 0 && plain_seconds <= recovered_within * oracle) {
    recover_steps_.push_back(course.step() - changed_at_);
    changed_at_ = -1;
  }
}

void Score::follow_window(Times step) {
  window_.push_back(step);
  in_window_.own += step.own;
  in_window_.off += step.off;
  if (window_.size() > window_steps) {
    in_window_.own -= window_.front().own;
    in_window_.off -= window_.front().off;
    window_.pop_front();
  }
  if (window_.size() < window_steps) return;
  const double speedup = in_window_.off / in_window_.own;
  if (worst_window_ == 0 || speedup < worst_window_) worst_window_ = speedup;
}

SimulationResult Score::result(int resizes) const {
  const auto steps = static_cast<double>(steps_);
  SimulationResult result;
  result.mean_step_seconds = total_ / steps;
  result.samples_per_second = static_cast<double>(options_.batch) * steps / total_;
  result.efficiency = oracle_ / total_;
  result.speedup = off_ / total_;
  result.load_balance = load_balance_ / steps;
  result.resizes = resizes;
  result.worst_window = worst_window_ > 0 ? worst_window_ : result.speedup;  // a shorter run
  result.recover_steps = recover_steps_;
  if (changed_at_ >= 0) result.recover_steps.push_back(options_.steps - changed_at_);
  return result;
}

Record start_record(const RankState& state) {
  Record record;
  record.fixed_ns = state.cost.fixed_ns;
  record.per_sample_ps = state.cost.per_sample_ps;
  record.floor_ns = state.cost.floor_ns;
  record.cpu_available = encode_cores(state.cpu_seen);
  record.memory_available = encode_mebibytes(state.memory_seen);
  return record;
}

std::vector<SimulationResult> simulate(Trace& trace, const SimulationOptions& options,
                                       std::span<const std::string> sizers) {
  Course course(trace, options);
  std::deque<VirtualJob> jobs;  // they stay where they are made
  for (const std::string& sizer : sizers) jobs.emplace_back(course, options, sizer);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    if (step > 0) course.advance();
    for (VirtualJob& job : jobs) job.run_step(course);
  }
  std::vector<SimulationResult> results;
  results.reserve(sizers.size());
  for (const VirtualJob& job : jobs) results.push_back(job.result());
  return results;
}

}  // namespace evenstep::lb
