#include "evenstep/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "runtime/buckets.h"
#include "runtime/elementwise.h"
#include "runtime/gradient_arena.h"
#include "runtime/handshake.h"
#include "runtime/reducer.h"
#include "runtime/tuner.h"
#include "runtime/watchdog.h"

namespace evenstep {
namespace {

constexpr std::int64_t measured_bucket_bytes[] = {1 << 18, 1 << 20, 1 << 23};
constexpr int own_metrics = 1;  // the time of the step before travels behind the user's metrics
constexpr const char* overlaps[] = {"off", "tests", "thread", "auto"};
constexpr const char* wires[] = {"f32", "bf16", "f16"};  // by Wire

void check_name(const char* what, const std::string& given, std::span<const char* const> known) {
  if (std::ranges::find(known, given) == known.end())
    throw UsageError(
        fmt::format("unknown {} '{}'; choose one of {}", what, given, fmt::join(known, ", ")));
}

void check_layers(const SessionOptions& options) {
  const auto& ends = options.layer_ends;
  if (ends.empty()) return;
  if (ends.front() < 0 || !std::ranges::is_sorted(ends) || ends.back() != options.gradients)
    throw UsageError(
        fmt::format("the layers' ends must ascend from 0 to the number of gradients, {}; "
                    "they go from {} to {}",
                    options.gradients, ends.front(), ends.back()));
}

void check_options(const SessionOptions& options) {
  check(options);
  if (options.gradients < 0)
    throw UsageError(
        fmt::format("the number of gradients is {}, it must be at least 0", options.gradients));
  if (options.bucket_bytes < 0)
    throw UsageError(fmt::format("the size of buckets is {} bytes, it must be at least 0",
                                 options.bucket_bytes));
  check_layers(options);
  if (options.backward_ways < 1)
    throw UsageError(fmt::format("the number of ways to run backward is {}, it must be at least 1",
                                 options.backward_ways));
  check_name("overlap", options.overlap, overlaps);
  check_name("wire", options.wire, wires);
}

Wire wire_of(const SessionOptions& options) {
  return static_cast<Wire>(std::ranges::find(wires, options.wire) - std::begin(wires));
}
bool tail_apart(const SessionOptions& options) { return wire_of(options) != Wire::f32; }

// Distinct ways to cut, small buckets first.
std::vector<std::vector<std::size_t>> bucket_cuts(const SessionOptions& options, std::size_t tail) {
  std::vector<std::int64_t> sizes(std::begin(measured_bucket_bytes),
                                  std::end(measured_bucket_bytes));
  if (options.bucket_bytes > 0) sizes = {options.bucket_bytes};
  std::vector<std::vector<std::size_t>> cuts;
  for (std::int64_t bytes : sizes) {
    auto cut = cut_buckets(options.layer_ends, static_cast<std::size_t>(options.gradients), tail,
                           static_cast<std::size_t>(bytes) / sizeof(float), tail_apart(options));
    if (cuts.empty() || cut != cuts.back()) cuts.push_back(std::move(cut));
  }
  return cuts;
}

std::vector<Overlap> open_overlaps(const SessionOptions& options, const Communicator& all) {
  if (options.overlap == name(Overlap::off)) return {};
  if (options.overlap == name(Overlap::tests)) return {Overlap::tests};
  if (options.overlap == name(Overlap::thread)) return {Overlap::thread};
  if (all.size() == 1) return {};  // nothing to gain
  if (all.progress_thread() == ProgressThread::spare) return {Overlap::tests, Overlap::thread};
  return {Overlap::tests};
}

// The ways to run a step that are open.
std::vector<ReducePlan> make_plans(const SessionOptions& options, std::size_t tail,
                                   const Communicator& all) {
  const bool any = options.overlap == "auto";
  const Wire wire = wire_of(options);
  const auto cuts = bucket_cuts(options, tail);
  std::vector<ReducePlan> plans;
  if (any || options.overlap == name(Overlap::off))
    plans.push_back({Overlap::off,
                     cut_buckets({}, static_cast<std::size_t>(options.gradients), tail,
                                 std::numeric_limits<std::size_t>::max(), tail_apart(options)),
                     0, wire});
  // With no bucket to start before the last one, there is no overlap.
  const std::size_t least_buckets = tail_apart(options) ? 3 : 2;
  for (Overlap overlap : open_overlaps(options, all))
    for (const auto& cut : cuts)
      for (int way = 0; way < options.backward_ways; ++way)
        if (cut.size() >= least_buckets || plans.empty())
          plans.push_back({overlap, cut, way, wire});
  return plans;
}

void refuse_no_thread(const SessionOptions& options, const Communicator& communicator) {
  if (options.overlap == name(Overlap::thread) &&
      communicator.progress_thread() == ProgressThread::no)
    throw AgreedError(
        "overlap thread: this MPI library, or the way it was started, allows calls "
        "from one thread only; take tests",
        2);
}

BalanceOptions balance_options(Communicator& communicator, const SessionOptions& options) {
  BalanceOptions balance = options;
  balance.metrics += own_metrics;
  balance.gather = [&communicator](const std::string& mine) { return communicator.gather(mine); };
  return balance;
}

std::vector<std::string> hosts_of(std::span<const RankStart> ranks) {
  std::vector<std::string> hosts;
  for (const RankStart& rank : ranks) hosts.push_back(rank.host);
  return hosts;
}

}  // namespace

struct Session::State {
  State(Communicator& communicator, const SessionOptions& options)
      : ranks(shake_hands(communicator, options)),
        hosts(hosts_of(ranks)),
        balance(communicator.rank(), ranks, balance_options(communicator, options)),
        arena(static_cast<std::size_t>(options.gradients), balance.tail_size()),
        plans(make_plans(options, balance.tail_size(), communicator)),
        tuner(plans.size()),
        reducer(communicator, arena, balance, options.global_batch),
        my_metrics(static_cast<std::size_t>(options.metrics + own_metrics)),
        average(options.average),
        watchdog(communicator, hosts, options.stall) {}

  Share begin(Share share) {
    reducer.begin(plan());
    step = share.step;
    watchdog.computes(step, Phase::load);
    return share;
  }
  const ReducePlan& plan() const { return plans[tuner.way()]; }
  void lap(Phase phase);
  StepResult end(const StepSums& mine);

  std::vector<RankStart> ranks;
  std::vector<std::string> hosts;
  Balance balance;
  GradientArena arena;
  std::vector<ReducePlan> plans;
  Tuner tuner;
  Reducer reducer;
  std::vector<double> my_metrics;
  bool average;
  std::int64_t step = 0;
  Watchdog watchdog;
};

// After a phase comes the next one, as far as this can be known.
void Session::State::lap(Phase phase) {
  balance.lap(phase);
  if (phase == Phase::load) watchdog.computes(step, Phase::forward);
  if (phase == Phase::forward) watchdog.computes(step, Phase::backward);
}

StepResult Session::State::end(const StepSums& mine) {
  const std::size_t metrics = my_metrics.size() - own_metrics;
  if (mine.metrics.size() != metrics)
    throw UsageError(fmt::format("end_step got {} metrics, the session was made for {}",
                                 mine.metrics.size(), metrics));
  std::ranges::copy(mine.metrics, my_metrics.begin());
  watchdog.waits(step);
  balance.write(arena.tail(), {mine.weight, mine.loss, my_metrics});
  reducer.finish();
  watchdog.computes(step + 1, Phase::update);
  StepResult result = balance.read(arena.tail());
  if (!reducer.unpack()) result.skipped = true;
  tuner.end_step(result.metrics.back());
  my_metrics.back() = 1e-9 * static_cast<double>(balance.own_ns() + balance.last_wait_ns());
  result.metrics = result.metrics.first(metrics);
  if (result.skipped)
    std::ranges::fill(arena.gradients(), 0.0F);
  else if (average)
    scale(arena.gradients(), static_cast<float>(1 / result.weight));
  return result;
}

Session::Session(Communicator& communicator, const SessionOptions& options) {
  agree_on_errors(communicator, [&] { check_options(options); });
  refuse_no_thread(options, communicator);
  state_ = std::make_unique<State>(communicator, options);
}
Session::~Session() = default;

Share Session::begin_step() { return state_->begin(state_->balance.begin_step()); }
Share Session::begin_step(std::int64_t batch) {
  return state_->begin(state_->balance.begin_step(batch));
}
std::span<float> Session::gradients() { return state_->arena.gradients(); }
void Session::gradients_ready(std::int64_t first, std::int64_t count) {
  state_->reducer.ready(first, count);
}
void Session::progress() { state_->reducer.progress(); }
void Session::put_means(std::int64_t first, std::span<const float> means, double weight) {
  const auto place = state_->arena.gradients().subspan(static_cast<std::size_t>(first));
  scaled_copy(means, static_cast<float>(weight), place);
  gradients_ready(first, static_cast<std::int64_t>(means.size()));
}
StepResult Session::end_step(const StepSums& sums) { return state_->end(sums); }
void Session::watch_parameters(std::span<const float> parameters) {
  state_->balance.watch_parameters(parameters);
}
void Session::lap(Phase phase) { state_->lap(phase); }
void Session::pause() {
  state_->watchdog.pauses(state_->step + 1);
  state_->balance.pause();
}
void Session::resume() {
  state_->balance.resume();
  state_->watchdog.computes(state_->step + 1, Phase::update);
}
void Session::mark_cold() { state_->balance.mark_cold(); }
void Session::see(double cpu_available, double memory_mib) {
  state_->balance.see(cpu_available, memory_mib);
}
std::span<const RankReport> Session::reports() const { return state_->balance.reports(); }
std::span<const std::int64_t> Session::partition() const { return state_->balance.partition(); }
std::span<const std::string> Session::hosts() const { return state_->hosts; }
std::span<const std::int64_t> Session::phase_ns() const { return state_->balance.phase_ns(); }
std::int64_t Session::own_ns() const { return state_->balance.own_ns(); }
std::int64_t Session::last_wait_ns() const { return state_->balance.last_wait_ns(); }
std::int64_t Session::balance_ns() const { return state_->balance.balance_ns(); }
int Session::resizes() const { return state_->balance.resizes(); }
Overlap Session::overlap() const { return state_->plan().overlap; }
int Session::buckets() const { return static_cast<int>(state_->plan().bucket_ends.size()); }
int Session::backward_way() const { return state_->plan().backward_way; }
bool Session::overlap_settled() const { return state_->tuner.settled(); }
double Session::overlap_ratio() const { return state_->tuner.ratio(); }

const char* name(Overlap overlap) { return overlaps[static_cast<std::size_t>(overlap)]; }

}  // namespace evenstep
