#include "lb/warm_sizes.h"

#include <algorithm>

namespace evenstep::lb {
namespace {

constexpr std::size_t most_words = std::size_t{1} << 18;  // of sums_: 2 MB
constexpr double doubt_ranks = 4;  // so many ranks that showed nothing are assumed before the first
constexpr double close_enough = 1.002;

// target |= source << by
void add_shifted(std::span<const std::uint64_t> source, Samples by,
                 std::span<std::uint64_t> target) {
  const auto whole = static_cast<std::size_t>(by / 64);
  const auto bits = static_cast<unsigned>(by % 64);
  if (whole >= target.size()) return;
  for (std::size_t i = target.size(); i-- > whole + 1;) {
    const std::uint64_t carry = bits == 0 ? 0 : source[i - whole - 1] >> (64 - bits);
    target[i] |= source[i - whole] << bits | carry;
  }
  target[whole] |= source[0] << bits;
}

bool holds(std::span<const std::uint64_t> sums, Samples sum) {
  return (sums[static_cast<std::size_t>(sum / 64)] >> (sum % 64) & 1) != 0;
}

}  // namespace

WarmSizes::WarmSizes(std::size_t ranks, Samples batch, Samples granule)
    : granules_(batch / granule),
      granule_(granule),
      words_(static_cast<std::size_t>(granules_ / 64 + 1)),
      sizes_(ranks * remembered),
      added_(ranks) {
  if (batch % granule != 0 || ranks * words_ > most_words) return;
  finishes_.resize(sizes_.size());
  candidates_.reserve(sizes_.size());
  sums_.resize((ranks + 1) * words_);
}

std::span<const Samples> WarmSizes::sizes(std::size_t rank) const {
  return std::span(sizes_).subspan(rank * remembered, std::min(added_[rank], remembered));
}

bool WarmSizes::is_new(std::size_t rank, Samples share) const {
  const auto known = sizes(rank);
  return share > 0 && std::ranges::find(known, share) == known.end();
}

bool WarmSizes::any_new(std::span<const Samples> shares) const {
  for (std::size_t r = 0; r < shares.size(); ++r)
    if (is_new(r, shares[r])) return true;
  return false;
}

bool WarmSizes::add(std::size_t rank, Samples share) {
  if (!is_new(rank, share)) return false;
  sizes_[rank * remembered + added_[rank] % remembered] = share;
  ++added_[rank];
  return true;
}

void WarmSizes::learn(double price, std::size_t ranks) {
  const auto weight = static_cast<double>(ranks);
  price_ += (price - price_) * weight / (weight + doubt_ranks);
}

// Tries finish times of warm sizes by halves: the later, the more sizes may be used.
Nanoseconds WarmSizes::solve(std::span<const RankCost> costs, const SizeTable& table,
                             Nanoseconds limit, std::span<Samples> shares) {
  if (!can_solve()) return limit;
  list_finishes(costs, table, limit);
  Nanoseconds best = limit;
  auto low = candidates_.cbegin();
  auto high = candidates_.cend();
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (static_cast<double>(best) <= close_enough * static_cast<double>(*low)) break;
    if (reaches_batch(*middle)) {
      best = *middle;
      trace_back(best, shares);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return best;
}

// Candidates below the limit, from the first at which every rank has a size to run.
void WarmSizes::list_finishes(std::span<const RankCost> costs, const SizeTable& table,
                              Nanoseconds limit) {
  candidates_.clear();
  Nanoseconds first = 0;
  for (std::size_t r = 0; r < costs.size(); ++r) {
    Nanoseconds shortest = largest_field;
    for (std::size_t i = 0; i < sizes(r).size(); ++i) {
      const Samples share = sizes(r)[i];
      const bool allowed =
          share % granule_ == 0 && share >= costs[r].least && share <= costs[r].most;
      const Nanoseconds finish = allowed ? finish_ns(costs[r].cost, table, share) : largest_field;
      finishes_[r * remembered + i] = finish;
      shortest = std::min(shortest, finish);
      if (finish < limit) candidates_.push_back(finish);
    }
    first = std::max(first, shortest);
  }
  std::erase_if(candidates_, [&](Nanoseconds finish) { return finish < first; });
  std::ranges::sort(candidates_);
}

std::span<std::uint64_t> WarmSizes::sums(std::size_t ranks) {
  return std::span(sums_).subspan(ranks * words_, words_);
}

bool WarmSizes::reaches_batch(Nanoseconds finish) {
  std::ranges::fill(sums_, 0);
  sums_[0] = 1;
  for (std::size_t r = 0; r < added_.size(); ++r)
    for (std::size_t i = 0; i < sizes(r).size(); ++i)
      if (finishes_[r * remembered + i] <= finish)
        add_shifted(sums(r), sizes(r)[i] / granule_, sums(r + 1));
  return holds(sums(added_.size()), granules_);
}

void WarmSizes::trace_back(Nanoseconds finish, std::span<Samples> shares) const {
  Samples left = granules_;
  for (std::size_t r = added_.size(); r-- > 0;) {
    const auto before = std::span(sums_).subspan(r * words_, words_);
    for (std::size_t i = 0; i < sizes(r).size(); ++i) {
      const Samples granules = sizes(r)[i] / granule_;
      const bool allowed = finishes_[r * remembered + i] <= finish && granules <= left;
      if (!allowed || !holds(before, left - granules)) continue;
      shares[r] = sizes(r)[i];
      left -= granules;
      break;
    }
  }
}

}  // namespace evenstep::lb
