#include "lb/balancer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace evenstep::lb {
namespace {

constexpr std::int64_t echo_steps = 4;
constexpr double seen_news = 0.1;      // change of availability that all should know of at once
constexpr double echo_change = 0.02;   // of a share; less changes no cost
constexpr double horizon = 10;         // steps that what a new size gains now is expected to last
constexpr double regret_band = 0.015;  // less is noise
constexpr double most_caution = 64;

std::vector<Samples> even_partition(std::size_t ranks, Samples batch, Samples granule) {
  const std::vector<Samples> one_each(ranks, 1);
  std::vector<Samples> shares(ranks);
  apportion(one_each, batch / granule, shares);
  for (Samples& share : shares) share *= granule;
  shares.back() += batch % granule;
  return shares;
}

std::vector<Samples> first_partition(const BalancerOptions& options, Sizer& sizer,
                                     const View& view) {
  // Also where the sizer starts evenly: the ranks must be able to take the
  // batch at all.
  std::vector<Samples> shares(view.records.size());
  if (sizer.propose_first(view, shares)) return shares;
  shares = even_partition(view.records.size(), options.batch, options.granule);
  const auto within = [&](std::size_t r) {
    return shares[r] >= view.records[r].least && shares[r] <= view.records[r].most;
  };
  bool all_within = true;
  for (std::size_t r = 0; r < shares.size(); ++r) all_within = all_within && within(r);
  if (all_within) return shares;
  std::vector<RankCost> equal;
  for (const Record& record : view.records)
    equal.push_back({{.per_sample_ps = 1000}, record.least, record.most});
  solve_partition({equal, options.batch, options.granule, view.table}, shares);
  return shares;
}

}  // namespace

Balancer::Balancer(const BalancerOptions& options, std::span<const Record> start)
    : options_(options),
      sizer_(make_sizer(options.sizer, static_cast<int>(start.size()), options.predictor)),
      models_(start.size()),
      pool_(start.size()),
      partition_(first_partition(options_, *sizer_, view(start))),
      runs_(start.size()),
      smallest_(partition_),
      largest_(partition_),
      proposal_(start.size()),
      completed_(start.begin(), start.end()),
      warm_proposal_(start.size()),
      before_purchase_(start.size()),
      policy_(partition_, options.lag),
      warm_(start.size(), options.batch, options.granule) {
  prices_.reserve(start.size());
}

View Balancer::view(std::span<const Record> records) const {
  return {records, models_, pool_, options_.batch, options_.granule, &options_.table};
}

void Balancer::cut(Samples batch, std::span<Samples> shares) const {
  apportion(partition_, batch, shares);
}

Decision Balancer::observe(std::span<const Record> records, bool much_to_come) {
  ++steps_since_resize_;
  if (++steps_ == 2) look_back_at_first_step(records);
  const bool dear = learn_price(records);
  bool cold = dear;
  for (std::size_t r = 0; r < records.size(); ++r) {
    const Record& record = records[r];
    const bool is_new = warm_.add(r, record.samples);
    if (record.has(flag_stale)) continue;
    cold = cold || record.has(flag_cold);
    if (record.tells_speed() && !(dear && is_new)) observe_speed(r, record);
    models_[r].see(record.cpu_available);
  }
  const std::span<const Record> known = complete(records);
  Samples batch = 0;
  Nanoseconds longest = 0;
  for (const Record& record : known) {
    batch += record.samples;
    longest = std::max(longest, record.own_ns);
  }
  if (!cold && batch == options_.batch) policy_.measure(longest);

  if (much_to_come) return Decision::keep;
  const bool proposed = sizer_->propose(view(known), proposal_);
  if (!sizer_->foreseen().empty()) return decide_by_policy(proposed);
  if (!proposed || std::ranges::equal(proposal_, partition_)) return Decision::keep;
  move_to(proposal_);
  return Decision::adopt;
}

// All sizes were new in it: if it was dear, its times are no measure of speeds.
void Balancer::look_back_at_first_step(std::span<const Record> records) {
  prices_.clear();
  for (std::size_t r = 0; r < records.size(); ++r)
    if (!records[r].has(flag_stale) && models_[r].observations() == 1 && records[r].own_ns > 0 &&
        records[r].samples > 0)
      prices_.push_back(
          foreseen_ns(r, records[r].samples) / static_cast<double>(records[r].own_ns) - 1);
  const double price = median_price();
  if (price < WarmSizes::least_price) return;
  warm_.learn(price, prices_.size());
  std::ranges::fill(models_, RankModel{});
  pool_ = Pool(models_.size());
}

// Whether the new sizes of this step were dear.
bool Balancer::learn_price(std::span<const Record> records) {
  prices_.clear();
  for (std::size_t r = 0; r < records.size(); ++r) {
    const Record& record = records[r];
    const bool counts =
        !record.has(flag_cold) && !record.has(flag_stale) && models_[r].observations() > 0;
    if (counts && warm_.is_new(r, record.samples))
      prices_.push_back(static_cast<double>(record.own_ns) / foreseen_ns(r, record.samples) - 1);
  }
  if (prices_.empty()) return false;
  const double price = median_price();
  warm_.learn(std::max(0.0, price), prices_.size());
  return price >= WarmSizes::least_price;
}

double Balancer::foreseen_ns(std::size_t rank, Samples share) const {
  const auto ns = finish_ns(models_[rank].cost(pool_), options_.table, share);
  return static_cast<double>(std::max<Nanoseconds>(1, ns));
}

// The median of prices_, 0 where there are none: the speeds of some ranks may have changed, too.
double Balancer::median_price() {
  if (prices_.empty()) return 0;
  const auto median = prices_.begin() + static_cast<std::ptrdiff_t>(prices_.size() / 2);
  std::ranges::nth_element(prices_, median);
  return *median;
}

// A rank of which nothing was heard took as long as all ranks foresaw: else it would have spoken.
std::span<const Record> Balancer::complete(std::span<const Record> records) {
  const auto is_stale = [](const Record& record) { return record.has(flag_stale); };
  if (std::ranges::none_of(records, is_stale)) return records;
  std::ranges::copy(records, completed_.begin());
  for (std::size_t r = 0; r < completed_.size(); ++r) {
    Record& record = completed_[r];
    if (!is_stale(record)) continue;
    record.flags &= ~std::uint32_t{flag_cold};
    const bool foreseen = record.samples > 0 && models_[r].observations() > 0;
    record.own_ns =
        foreseen ? finish_ns(models_[r].cost(pool_), options_.table, record.samples) : 0;
  }
  return completed_;
}

bool Balancer::is_news(std::size_t rank, const Record& mine, const Record& known) const {
  constexpr std::uint32_t lasting = ~std::uint32_t{flag_cold | flag_stale};
  if ((mine.flags & lasting) != (known.flags & lasting)) return true;
  if (mine.least != known.least || mine.most != known.most) return true;
  const double seen_change = static_cast<double>(mine.cpu_available) - known.cpu_available;
  if (std::abs(seen_change) > seen_news * known.cpu_available) return true;
  if (!mine.tells_speed()) return false;
  return models_[rank].is_surprised_by(mine.own_ns, options_.table.units(mine.samples), pool_);
}

void Balancer::observe_speed(std::size_t rank, const Record& record) {
  using News = CostModel::News;
  const News news = models_[rank].observe(record, options_.table.units(record.samples), pool_);
  const bool slower = news == News::seems_slower || news == News::is_slower;
  const bool for_good = news == News::is_slower || news == News::is_faster;
  Run& run = runs_[rank];
  if (news != News::none && !run.surprises) run.is_echo = is_echo(rank, slower);
  run.surprises = news != News::none && !for_good;
  if (news != News::none && !run.is_echo) policy_.speeds_change(for_good);
}

// A rank that is slower at a larger share, or faster at a smaller one, just after a re-size, shows
// what that share costs it, not a change of its speed.
bool Balancer::is_echo(std::size_t rank, bool slower) const {
  if (steps_since_resize_ > echo_steps + options_.lag) return false;
  const auto now = static_cast<double>(partition_[rank]);
  return slower ? now > static_cast<double>(smallest_[rank]) * (1 + echo_change)
                : now < static_cast<double>(largest_[rank]) * (1 - echo_change);
}

Decision Balancer::decide_by_policy(bool proposed) {
  Policy::Proposal proposal{};
  if (proposed && warm_.price() > 0) proposed = spare_new_sizes();
  if (proposed) {
    double error = 0;
    for (const RankModel& model : models_) error = std::max(error, model.relative_error(pool_));
    proposal = {foreseen_finish(partition_), foreseen_finish(proposal_), error, pool_.trust_seen()};
  }
  const Decision decision = policy_.decide(proposed ? &proposal : nullptr);
  if (decision == Decision::adopt) move_to(proposal_);
  if (decision == Decision::return_to_best) move_to(policy_.best());
  return decision;
}

void Balancer::move_to(std::span<const Samples> partition) {
  const bool first = steps_since_resize_ > echo_steps;
  steps_since_resize_ = 0;
  if (warm_.price() > 0 && warm_.any_new(partition)) note_purchase();
  for (std::size_t r = 0; r < partition.size(); ++r) {
    smallest_[r] = first ? partition_[r] : std::min(smallest_[r], partition_[r]);
    largest_[r] = first ? partition_[r] : std::max(largest_[r], partition_[r]);
  }
  std::ranges::copy(partition, partition_.begin());
  policy_.adopted(partition_);
  ++resizes_;
}

// Of the ranks that were heard of.
double Balancer::fewest_readings() const {
  int fewest = std::numeric_limits<int>::max();
  for (const RankModel& model : models_)
    if (model.observations() > 0) fewest = std::min(fewest, model.observations());
  return fewest;
}

// Rent or buy: new sizes are bought when what was lost for want of them, and is to be expected of
// the near future, comes to their price; till then the best partition of warm sizes has to do.
// And not before speeds are known: the nth reading improves the sizes by the order of price / n^2,
// and to wait for it costs `loss`. Returns whether there is a proposal left.
bool Balancer::spare_new_sizes() {
  if (!warm_.any_new(proposal_)) return true;
  const auto best = static_cast<double>(foreseen_finish(proposal_));
  const Nanoseconds now = foreseen_finish(partition_);
  const Nanoseconds warm = warm_.solve(sizer_->foreseen(), options_.table, now, warm_proposal_);
  const double loss = std::max(0.0, static_cast<double>(warm) / best - 1 - regret_band);
  regret_ += loss;
  saved_ += std::max(0.0, static_cast<double>(foreseen_finish(before_purchase_) - now) / best);
  const double readings = fewest_readings();
  const bool pays = regret_ + horizon * loss > caution_ * warm_.price();
  if (pays && readings * readings * loss >= warm_.price()) return true;
  std::ranges::copy(warm_proposal_, proposal_.begin());
  return warm < now;
}

// New sizes that did not pay make the next ones wait for longer.
void Balancer::note_purchase() {
  const double paid = saved_ / warm_.price();
  if (purchases_++ > 0 && paid < 0.5) caution_ = std::min(2 * caution_, most_caution);
  if (paid > 1) caution_ = std::max(caution_ / 2, least_caution);
  regret_ = 0;
  saved_ = 0;
  std::ranges::copy(partition_, before_purchase_.begin());
}

Nanoseconds Balancer::foreseen_finish(std::span<const Samples> partition) const {
  Nanoseconds finish = 0;
  const auto costs = sizer_->foreseen();
  for (std::size_t r = 0; r < partition.size(); ++r)
    finish = std::max(finish, finish_ns(costs[r].cost, options_.table, partition[r]));
  return finish;
}

}  // namespace evenstep::lb
