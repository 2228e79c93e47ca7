#include "evenstep/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "lb/balancer.h"
#include "lb/tail.h"
#include "runtime/elementwise.h"
#include "runtime/stopwatch.h"

namespace evenstep {
namespace {

constexpr int own_sums = 2;  // weight and loss travel before the user's metrics
constexpr std::size_t watched_slice = 1024;
constexpr std::uint32_t step_mask = (1U << 24) - 1;

lb::BalancerOptions balancer_options(const BalanceOptions& options) {
  lb::BalancerOptions balancer;
  balancer.sizer = options.balance;
  balancer.predictor = options.predictor;
  balancer.batch = options.global_batch;
  balancer.granule = options.granule;
  balancer.lag = options.lag;
  if (!options.size_cost.empty()) balancer.table = lb::SizeTable(options.size_cost);
  return balancer;
}

std::vector<lb::Record> start_records(std::span<const RankStart> ranks) {
  std::vector<lb::Record> records;
  for (const RankStart& start : ranks) {
    lb::Record& record = records.emplace_back();
    record.least = start.least_share;
    if (start.most_share >= 0) record.most = start.most_share;
    record.fixed_ns = start.forecast.fixed_ns;
    record.per_sample_ps = start.forecast.per_sample_ps;
    record.floor_ns = start.forecast.floor_ns;
  }
  return records;
}

// Every rank has the same records: what is wrong with them is wrong for all alike.
lb::Balancer make_balancer(const BalanceOptions& options, std::span<const lb::Record> records) {
  try {
    return lb::Balancer(balancer_options(options), records);
  } catch (const std::bad_alloc&) {
    throw;  // of this rank alone
  } catch (const std::exception& error) {
    throw AgreedError(error.what(), 2);
  }
}

lb::Tail make_tail(const BalanceOptions& options, std::size_t ranks) {
  const int count = static_cast<int>(ranks);
  try {
    return {lb::tail_form(options.tail, count), count, own_sums + options.metrics};
  } catch (const std::invalid_argument& error) {
    throw AgreedError(error.what(), 2);
  }
}

std::vector<RankStart> all_like(int ranks, const BalanceOptions& options) {
  const RankStart start{"", options.least_share, options.most_share, options.forecast};
  return std::vector<RankStart>(static_cast<std::size_t>(std::max(ranks, 1)), start);
}

}  // namespace

void check(const BalanceOptions& options) {
  try {
    lb::tail_form(options.tail, 1);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  const auto least = [](const char* what, std::int64_t value, std::int64_t bound) {
    if (value < bound)
      throw UsageError(fmt::format("{} is {}, it must be at least {}", what, value, bound));
  };
  least("the global batch", options.global_batch, 1);
  least("the granule", options.granule, 1);
  least("the least share", options.least_share, 0);
  least("the number of metrics", options.metrics, 0);
  if (options.lag != 0 && options.lag != 1)
    throw UsageError(fmt::format("the lag is {}, it must be 0 or 1", options.lag));
  if (options.global_batch > std::int64_t{1} << 31)
    throw UsageError(
        fmt::format("the global batch is {}, it can be at most 2^31", options.global_batch));
}

struct Balance::State {
  State(int rank_, std::span<const RankStart> ranks, const BalanceOptions& options_)
      : rank(static_cast<std::size_t>(rank_)),
        options(options_),
        starts(ranks.begin(), ranks.end()),
        clock(options.clock != nullptr ? *options.clock : steady_clock()),
        records(start_records(ranks)),
        limits(records[rank]),
        mine(limits),
        balancer(make_balancer(options, records)),
        tail(make_tail(options, ranks.size())),
        stopwatch(clock),
        reports(records.size()),
        next(balancer.partition().begin(), balancer.partition().end()),
        decided(next),
        shares(next),
        sums(static_cast<std::size_t>(own_sums + options.metrics)),
        my_sums(sums.size()) {}

  Share begin(std::int64_t batch);
  template <typename Real>
  void write(std::span<Real> numbers, const StepSums& of_mine);
  template <typename Real>
  StepResult read(std::span<const Real> numbers);
  lb::Record my_record(const StepSums& of_mine) const;
  std::uint32_t watched_hash() const;
  std::string place(std::size_t of_rank) const;
  bool is_introduction() const;
  void ask_everyone();
  [[noreturn]] void refuse(const lb::News& news);
  void check_agreement() const;
  template <typename Field>
  void check_equal(Field field, const char* what) const;
  StepResult result_of_sums(const lb::News& news) const;
  void take_news(StepResult& result, const lb::News& news);

  std::size_t rank;
  BalanceOptions options;
  std::vector<RankStart> starts;
  const Clock& clock;
  std::vector<lb::Record> records;
  lb::Record limits;  // and the forecast, of this rank
  lb::Record mine;    // of the step in progress
  lb::Balancer balancer;
  lb::Tail tail;
  Stopwatch stopwatch;
  std::vector<RankReport> reports;
  std::vector<std::int64_t> next;  // shares of the next full batch
  std::vector<std::int64_t>
      decided;                       // by the newest news; where there is a lag, for the step after
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

Share Balance::State::begin(std::int64_t batch) {
  if (batch < 0 || batch > options.global_batch)
    throw UsageError(
        fmt::format("a step's batch is {}, the global batch is {}; a step can have from "
                    "0 samples to the global batch",
                    batch, options.global_batch));
  if (batch == options.global_batch)
    std::ranges::copy(next, shares.begin());
  else
    lb::apportion(next, batch, shares);
  Share share{.step = step, .count = shares[rank], .batch = batch};
  // A rest that makes no granule lies first in the batch, whoever has it: so the batch is cut into
  // granules at the same places by every partition.
  const auto is_ragged = [&](std::size_t r) { return shares[r] % options.granule != 0; };
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const bool is_before = is_ragged(r) == is_ragged(rank) ? r < rank : is_ragged(r);
    if (is_before) share.offset += shares[r];
  }
  return share;
}

std::uint32_t Balance::State::watched_hash() const {
  if (watched.empty()) return 0;
  const std::size_t slices = (watched.size() + watched_slice - 1) / watched_slice;
  const std::size_t first = static_cast<std::size_t>(step) % slices * watched_slice;
  return hash_bits(watched.subspan(first, std::min(watched_slice, watched.size() - first)));
}

lb::Record Balance::State::my_record(const StepSums& of_mine) const {
  lb::Record record = limits;
  record.step = static_cast<std::uint32_t>(step) & step_mask;
  record.partition_hash = lb::partition_hash(shares);
  record.parameter_hash = watched_hash();
  if (cold) record.flags |= lb::flag_cold;
  if (!std::isfinite(of_mine.loss) || !std::isfinite(of_mine.weight))
    record.flags |= lb::flag_not_finite;
  record.samples = shares[rank];
  record.own_ns = stopwatch.own_ns();
  record.wait_ns = stopwatch.wait_ns();
  record.cpu_available = cpu_available;
  record.memory_available = memory_available;
  return record;
}

template <typename Real>
void Balance::State::write(std::span<Real> numbers, const StepSums& of_mine) {
  if (numbers.size() != tail.size())
    throw UsageError(fmt::format("write got room for a tail of {} numbers, it has {}",
                                 numbers.size(), tail.size()));
  if (of_mine.metrics.size() + own_sums != sums.size())
    throw UsageError(fmt::format("a step came with {} metrics, there must be {}",
                                 of_mine.metrics.size(), options.metrics));
  stopwatch.enter_collective();
  my_sums[0] = of_mine.weight;
  my_sums[1] = of_mine.loss;
  std::ranges::copy(of_mine.metrics, my_sums.begin() + own_sums);
  mine = my_record(of_mine);
  const bool is_news =
      tail.form() == lb::TailForm::rotating && balancer.is_news(rank, mine, records[rank]);
  tail.write<Real>(numbers, static_cast<int>(rank), mine, is_news, my_sums);
}

template <typename Real>
StepResult Balance::State::read(std::span<const Real> numbers) {
  stopwatch.leave_collective();
  if (numbers.size() != tail.size())
    throw UsageError(
        fmt::format("read got a tail of {} numbers, it has {}", numbers.size(), tail.size()));
  const lb::News news = tail.read<Real>(numbers, sums, records);
  for (std::size_t r = 0; r < records.size(); ++r)
    if (records[r].has(lb::flag_stale)) records[r].samples = shares[r];
  if (!news.agree || news.unreadable >= 0) refuse(news);
  if (news.count(lb::flag_not_finite) > 0 || is_introduction()) ask_everyone();
  StepResult result = result_of_sums(news);
  take_news(result, news);
  cold = false;
  ++step;
  return result;
}

// Two times of each rank are what costs can be known by: with thousands of ranks, their turns would
// take long to come round twice. The first step is cold.
bool Balance::State::is_introduction() const { return step == 1 || step == 2; }

// The records of all ranks, and not just of those whose turn it is.
void Balance::State::ask_everyone() {
  if (tail.form() == lb::TailForm::slots || !options.gather) return;
  stopwatch.pause();
  std::array<double, lb::record_digits> digits{};
  lb::encode<double>(mine, digits);
  const std::vector<std::string> texts =
      options.gather(std::string(reinterpret_cast<const char*>(digits.data()), sizeof digits));
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (texts.at(r).size() != sizeof digits) continue;
    std::memcpy(digits.data(), texts[r].data(), sizeof digits);
    if (const auto record = lb::decode<double>(digits)) records[r] = *record;
  }
  stopwatch.resume();
}

void Balance::State::refuse(const lb::News& news) {
  ask_everyone();
  check_agreement();
  if (news.unreadable >= 0)
    throw AgreedError(fmt::format("step {}: the record of {} cannot be read", step,
                                  place(static_cast<std::size_t>(news.unreadable))));
  throw AgreedError(fmt::format(
      "step {}: a rank has another step, partition or parameters than the others", step));
}

std::string Balance::State::place(std::size_t of_rank) const {
  const std::string& host = starts[of_rank].host;
  return host.empty() ? fmt::format("rank {}", of_rank)
                      : fmt::format("rank {} on {}", of_rank, host);
}

// Names the ranks that differ from most.
template <typename Field>
void Balance::State::check_equal(Field field, const char* what) const {
  std::map<std::uint32_t, int> votes;
  for (const lb::Record& record : records)
    if (!record.has(lb::flag_stale)) ++votes[field(record)];
  if (votes.size() < 2) return;
  const auto most = std::ranges::max_element(
      votes, [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string differing;
  for (std::size_t r = 0; r < records.size(); ++r)
    if (!records[r].has(lb::flag_stale) && field(records[r]) != most->first)
      differing +=
          fmt::format("{}{} ({:06x})", differing.empty() ? "" : ", ", place(r), field(records[r]));
  throw AgreedError(fmt::format("step {}: {} differ: {}; most ranks have {:06x}", step, what,
                                differing, most->first));
}

void Balance::State::check_agreement() const {
  check_equal([](const lb::Record& r) { return r.step; }, "step numbers");
  check_equal([](const lb::Record& r) { return r.partition_hash; }, "partitions");
  check_equal([](const lb::Record& r) { return r.parameter_hash; }, "parameters");
}

StepResult Balance::State::result_of_sums(const lb::News& news) const {
  StepResult result;
  result.weight = sums[0];
  result.loss = sums[0] != 0 ? sums[1] / sums[0] : 0;
  result.metrics = std::span(sums).subspan(own_sums);
  result.skipped = sums[0] == 0;
  result.not_finite_ranks = static_cast<int>(news.count(lb::flag_not_finite));
  for (std::size_t r = records.size(); result.not_finite_ranks > 0 && r-- > 0;)
    if (records[r].has(lb::flag_not_finite) && !records[r].has(lb::flag_stale))
      result.not_finite_rank = static_cast<int>(r);
  return result;
}

void Balance::State::take_news(StepResult& result, const lb::News& news) {
  for (std::size_t r = 0; r < records.size(); ++r)
    reports[r] = {records[r].samples, records[r].own_ns, records[r].wait_ns,
                  lb::cores_of(records[r].cpu_available)};
  const std::int64_t start = clock.now_ns();
  try {
    result.decision = static_cast<Decision>(balancer.observe(records, news.much_to_come));
  } catch (const std::exception& error) {
    throw AgreedError(fmt::format("step {}: {}", step, error.what()));
  }
  if (options.lag > 0) std::swap(next, decided);
  std::ranges::copy(balancer.partition(), options.lag > 0 ? decided.begin() : next.begin());
  balance_ns += clock.now_ns() - start;
}

static_assert(static_cast<int>(Decision::return_to_best) ==
              static_cast<int>(lb::Decision::return_to_best));
const char* name(Decision decision) { return lb::name(static_cast<lb::Decision>(decision)); }

const char* name(Phase phase) {
  constexpr const char* names[phases] = {"load", "forward", "backward", "update"};
  return names[static_cast<std::size_t>(phase)];
}

Balance::Balance(int rank, std::span<const RankStart> ranks, const BalanceOptions& options) {
  if (rank < 0 || rank >= static_cast<int>(ranks.size()))
    throw UsageError(fmt::format("the rank is {}, there are {} ranks", rank, ranks.size()));
  check(options);
  state_ = std::make_unique<State>(rank, ranks, options);
}
Balance::Balance(int rank, int ranks, const BalanceOptions& options)
    : Balance(rank, all_like(ranks, options), options) {}
Balance::~Balance() = default;

Share Balance::begin_step() { return state_->begin(state_->options.global_batch); }
Share Balance::begin_step(std::int64_t batch) { return state_->begin(batch); }
std::size_t Balance::tail_size() const { return state_->tail.size(); }
void Balance::write(std::span<float> tail, const StepSums& sums) { state_->write(tail, sums); }
void Balance::write(std::span<double> tail, const StepSums& sums) { state_->write(tail, sums); }
StepResult Balance::read(std::span<const float> tail) { return state_->read(tail); }
StepResult Balance::read(std::span<const double> tail) { return state_->read(tail); }
void Balance::watch_parameters(std::span<const float> parameters) { state_->watched = parameters; }
void Balance::lap(Phase phase) { state_->stopwatch.lap(phase); }
void Balance::pause() { state_->stopwatch.pause(); }
void Balance::resume() { state_->stopwatch.resume(); }
void Balance::begin_call() { state_->stopwatch.begin_call(); }
void Balance::end_call() { state_->stopwatch.end_call(); }
void Balance::charge(std::int64_t ns) { state_->stopwatch.charge(ns); }
void Balance::mark_cold() { state_->cold = true; }
void Balance::see(double cpu_available, double memory_mib) {
  state_->cpu_available = lb::encode_cores(cpu_available);
  state_->memory_available = lb::encode_mebibytes(memory_mib);
}
std::span<const RankReport> Balance::reports() const { return state_->reports; }
std::span<const std::int64_t> Balance::partition() const { return state_->next; }
std::span<const std::int64_t> Balance::phase_ns() const { return state_->stopwatch.phase_ns(); }
std::int64_t Balance::own_ns() const { return state_->stopwatch.own_ns(); }
std::int64_t Balance::last_wait_ns() const { return state_->stopwatch.wait_ns(); }
std::int64_t Balance::balance_ns() const { return state_->balance_ns; }
int Balance::resizes() const { return state_->balancer.resizes(); }

}  // namespace evenstep
