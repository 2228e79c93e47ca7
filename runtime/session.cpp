#include "evenstep/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/buckets.h"
#include "runtime/elementwise.h"
#include "runtime/gradient_arena.h"
#include "runtime/handshake.h"
#include "runtime/reducer.h"
#include "runtime/watchdog.h"

namespace evenstep {
namespace {

constexpr std::int64_t default_bucket_bytes = 1 << 20;

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
  if (options.overlap != name(Overlap::off) && options.overlap != name(Overlap::tests))
    throw UsageError(
        fmt::format("unknown overlap '{}'; choose one of off, tests", options.overlap));
}

ReducePlan make_plan(const SessionOptions& options, std::size_t tail) {
  const auto gradients = static_cast<std::size_t>(options.gradients);
  if (options.overlap == name(Overlap::off)) return {Overlap::off, {gradients + tail}};
  const std::int64_t bytes = options.bucket_bytes > 0 ? options.bucket_bytes : default_bucket_bytes;
  return {Overlap::tests, cut_buckets(options.layer_ends, gradients, tail,
                                      static_cast<std::size_t>(bytes) / sizeof(float))};
}

BalanceOptions balance_options(Communicator& communicator, const SessionOptions& options) {
  BalanceOptions balance = options;
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
        plan(make_plan(options, balance.tail_size())),
        reducer(communicator, arena, balance),
        watchdog(communicator, hosts, options.stall) {}

  Share begin(Share share) {
    reducer.begin(plan);
    step = share.step;
    watchdog.computes(step, Phase::load);
    return share;
  }
  void lap(Phase phase);
  StepResult end(const StepSums& mine);

  std::vector<RankStart> ranks;
  std::vector<std::string> hosts;
  Balance balance;
  GradientArena arena;
  ReducePlan plan;
  Reducer reducer;
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
  watchdog.waits(step);
  balance.write(arena.tail(), mine);
  reducer.finish();
  watchdog.computes(step + 1, Phase::update);
  const StepResult result = balance.read(arena.tail());
  if (result.skipped)
    std::ranges::fill(arena.gradients(), 0.0F);
  else
    scale(arena.gradients(), static_cast<float>(1 / result.weight));
  return result;
}

Session::Session(Communicator& communicator, const SessionOptions& options) {
  agree_on_errors(communicator, [&] { check_options(options); });
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
Overlap Session::overlap() const { return state_->plan.overlap; }
int Session::buckets() const { return static_cast<int>(state_->plan.bucket_ends.size()); }

const char* name(Overlap overlap) { return overlap == Overlap::off ? "off" : "tests"; }

}  // namespace evenstep
