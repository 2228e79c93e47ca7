#include "evenstep/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lb/balancer.h"
#include "lb/tail.h"
#include "runtime/elementwise.h"
#include "runtime/gradient_arena.h"
#include "runtime/handshake.h"
#include "runtime/reducer.h"
#include "runtime/stopwatch.h"

namespace evenstep {
namespace {

constexpr int own_sums = 2;  // weight and loss travel before the user's metrics
constexpr std::size_t watched_slice = 1024;
constexpr std::uint32_t step_mask = (1U << 24) - 1;

void check_options(const SessionOptions& options) {
  const auto least = [](const char* what, std::int64_t value, std::int64_t bound) {
    if (value < bound)
      throw UsageError(fmt::format("{} is {}, it must be at least {}", what, value, bound));
  };
  least("the global batch", options.global_batch, 1);
  least("the number of gradients", options.gradients, 0);
  least("the granule", options.granule, 1);
  least("the least share", options.least_share, 0);
  least("the number of metrics", options.metrics, 0);
  if (options.global_batch > std::int64_t{1} << 31)
    throw UsageError(
        fmt::format("the global batch is {}, it can be at most 2^31", options.global_batch));
}

lb::BalancerOptions balancer_options(const SessionOptions& options) {
  lb::BalancerOptions balancer;
  balancer.sizer = options.balance;
  balancer.predictor = options.predictor;
  balancer.batch = options.global_batch;
  balancer.granule = options.granule;
  if (!options.size_cost.empty()) balancer.table = lb::SizeTable(options.size_cost);
  return balancer;
}

// Every rank has the same records: what is wrong with them is wrong for all alike.
lb::Balancer make_balancer(const SessionOptions& options, const Handshake& handshake) {
  try {
    return lb::Balancer(balancer_options(options), handshake.records);
  } catch (const std::bad_alloc&) {
    throw;  // of this rank alone
  } catch (const std::exception& error) {
    throw AgreedError(error.what(), 2);
  }
}

}  // namespace

struct Session::State {
  State(Communicator& communicator_, const SessionOptions& options_)
      : communicator(communicator_),
        options(options_),
        clock(options.clock != nullptr ? *options.clock : steady_clock()),
        handshake(shake_hands(communicator, options)),
        balancer(make_balancer(options, handshake)),
        tail(communicator.size(), own_sums + options.metrics),
        arena(static_cast<std::size_t>(options.gradients), tail.size()),
        reducer(communicator, arena),
        stopwatch(clock),
        records(handshake.records),
        reports(handshake.records.size()),
        shares(balancer.partition().begin(), balancer.partition().end()),
        sums(static_cast<std::size_t>(own_sums + options.metrics)),
        my_sums(sums.size()) {}

  std::size_t rank() const { return static_cast<std::size_t>(communicator.rank()); }
  Share begin(std::int64_t batch);
  StepResult end(const StepSums& mine);
  lb::Record my_record(const StepSums& mine) const;
  std::uint32_t watched_hash() const;
  void check_agreement() const;
  template <typename Field>
  void check_equal(Field field, const char* what) const;
  StepResult average();
  void take_news(StepResult& result);

  Communicator& communicator;
  SessionOptions options;
  const Clock& clock;
  Handshake handshake;
  lb::Balancer balancer;
  lb::Tail tail;
  GradientArena arena;
  Reducer reducer;
  Stopwatch stopwatch;
  std::vector<lb::Record> records;
  std::vector<RankReport> reports;
  std::vector<std::int64_t> shares;  // of the step in progress
  std::vector<double> sums;
  std::vector<double> my_sums;
  std::span<const float> watched;
  std::int64_t step = 0;
  std::int64_t balance_ns = 0;
  bool cold = true;
  std::uint32_t cpu_available = 0;
  std::uint32_t memory_available = 0;
};

Share Session::State::begin(std::int64_t batch) {
  if (batch < 0 || batch > options.global_batch)
    throw UsageError(
        fmt::format("a step's batch is {}, the global batch is {}; a step can have from "
                    "0 samples to the global batch",
                    batch, options.global_batch));
  if (batch == options.global_batch)
    std::ranges::copy(balancer.partition(), shares.begin());
  else
    balancer.cut(batch, shares);
  Share share{.step = step, .count = shares[rank()], .batch = batch};
  for (std::size_t r = 0; r < rank(); ++r) share.offset += shares[r];
  return share;
}

std::uint32_t Session::State::watched_hash() const {
  if (watched.empty()) return 0;
  const std::size_t slices = (watched.size() + watched_slice - 1) / watched_slice;
  const std::size_t first = static_cast<std::size_t>(step) % slices * watched_slice;
  return hash_bits(watched.subspan(first, std::min(watched_slice, watched.size() - first)));
}

lb::Record Session::State::my_record(const StepSums& mine) const {
  lb::Record record = handshake.records[rank()];  // limits and forecast
  record.step = static_cast<std::uint32_t>(step) & step_mask;
  record.partition_hash = lb::partition_hash(shares);
  record.parameter_hash = watched_hash();
  if (cold) record.flags |= lb::flag_cold;
  if (!std::isfinite(mine.loss) || !std::isfinite(mine.weight)) record.flags |= lb::flag_not_finite;
  record.samples = shares[rank()];
  record.own_ns = stopwatch.own_ns();
  record.wait_ns = stopwatch.wait_ns();
  record.cpu_available = cpu_available;
  record.memory_available = memory_available;
  return record;
}

// Names the ranks that differ from most.
template <typename Field>
void Session::State::check_equal(Field field, const char* what) const {
  const auto first = field(records[0]);
  const bool equal =
      std::ranges::all_of(records, [&](const lb::Record& r) { return field(r) == first; });
  if (equal) return;
  std::map<std::uint32_t, int> votes;
  for (const lb::Record& record : records) ++votes[field(record)];
  const auto most = std::ranges::max_element(
      votes, [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string differing;
  for (std::size_t r = 0; r < records.size(); ++r)
    if (field(records[r]) != most->first)
      differing += fmt::format("{}rank {} on {} ({:06x})", differing.empty() ? "" : ", ", r,
                               handshake.hosts[r], field(records[r]));
  throw AgreedError(fmt::format("step {}: {} differ: {}; most ranks have {:06x}", step, what,
                                differing, most->first));
}

void Session::State::check_agreement() const {
  check_equal([](const lb::Record& r) { return r.step; }, "step numbers");
  check_equal([](const lb::Record& r) { return r.partition_hash; }, "partitions");
  check_equal([](const lb::Record& r) { return r.parameter_hash; }, "parameters");
}

StepResult Session::State::average() {
  StepResult result;
  result.weight = sums[0];
  result.loss = sums[0] != 0 ? sums[1] / sums[0] : 0;
  result.metrics = std::span(sums).subspan(own_sums);
  result.skipped = sums[0] == 0;
  for (std::size_t r = records.size(); r-- > 0;)
    if (records[r].has(lb::flag_not_finite)) result.not_finite_rank = static_cast<int>(r);
  if (result.skipped)
    std::ranges::fill(arena.gradients(), 0.0F);
  else
    scale(arena.gradients(), static_cast<float>(1 / result.weight));
  return result;
}

void Session::State::take_news(StepResult& result) {
  for (std::size_t r = 0; r < records.size(); ++r)
    reports[r] = {records[r].samples, records[r].own_ns, records[r].wait_ns};
  const std::int64_t start = clock.now_ns();
  try {
    result.decision = static_cast<Decision>(balancer.observe(records));
  } catch (const std::exception& error) {
    throw AgreedError(fmt::format("step {}: {}", step, error.what()));
  }
  balance_ns += clock.now_ns() - start;
}

StepResult Session::State::end(const StepSums& mine) {
  if (mine.metrics.size() + own_sums != sums.size())
    throw UsageError(fmt::format("end_step got {} metrics, the session was made for {}",
                                 mine.metrics.size(), options.metrics));
  stopwatch.enter_collective();
  my_sums[0] = mine.weight;
  my_sums[1] = mine.loss;
  std::ranges::copy(mine.metrics, my_sums.begin() + own_sums);
  tail.write<float>(arena.tail(), communicator.rank(), my_record(mine), my_sums);
  reducer.finish();
  stopwatch.leave_collective();

  const int unreadable = tail.read<float>(arena.tail(), sums, records);
  if (unreadable >= 0)
    throw AgreedError(fmt::format("step {}: the record of rank {} on {} cannot be read", step,
                                  unreadable,
                                  handshake.hosts[static_cast<std::size_t>(unreadable)]));
  check_agreement();
  StepResult result = average();
  take_news(result);
  cold = false;
  ++step;
  return result;
}

static_assert(static_cast<int>(Decision::return_to_best) ==
              static_cast<int>(lb::Decision::return_to_best));
const char* name(Decision decision) { return lb::name(static_cast<lb::Decision>(decision)); }

const char* name(Phase phase) {
  constexpr const char* names[phases] = {"load", "forward", "backward", "update"};
  return names[static_cast<std::size_t>(phase)];
}

Session::Session(Communicator& communicator, const SessionOptions& options) {
  agree_on_errors(communicator, [&] { check_options(options); });
  state_ = std::make_unique<State>(communicator, options);
}
Session::~Session() = default;

Share Session::begin_step() { return state_->begin(state_->options.global_batch); }
Share Session::begin_step(std::int64_t batch) { return state_->begin(batch); }
std::span<float> Session::gradients() { return state_->arena.gradients(); }
void Session::gradients_ready(std::int64_t first, std::int64_t count) {
  state_->reducer.ready(first, count);
}
StepResult Session::end_step(const StepSums& sums) { return state_->end(sums); }
void Session::watch_parameters(std::span<const float> parameters) { state_->watched = parameters; }
void Session::lap(Phase phase) { state_->stopwatch.lap(phase); }
void Session::pause() { state_->stopwatch.pause(); }
void Session::resume() { state_->stopwatch.resume(); }
void Session::mark_cold() { state_->cold = true; }
void Session::see(double cpu_available, double memory_mib) {
  state_->cpu_available = lb::encode_cores(cpu_available);
  state_->memory_available = lb::encode_mebibytes(memory_mib);
}
std::span<const RankReport> Session::reports() const { return state_->reports; }
std::span<const std::int64_t> Session::partition() const { return state_->balancer.partition(); }
std::span<const std::string> Session::hosts() const { return state_->handshake.hosts; }
std::span<const std::int64_t> Session::phase_ns() const { return state_->stopwatch.phase_ns(); }
std::int64_t Session::own_ns() const { return state_->stopwatch.own_ns(); }
std::int64_t Session::last_wait_ns() const { return state_->stopwatch.wait_ns(); }
std::int64_t Session::balance_ns() const { return state_->balance_ns; }
int Session::resizes() const { return state_->balancer.resizes(); }

}  // namespace evenstep
