// The finish time T is searched in whole nanoseconds: a rank's largest share within T never shrinks
// as T grows, so the least T in which all ranks together can take the batch is found by narrowing a
// bracket. At that T every rank takes what it could within T - 1, and what is left goes to ranks
// that can take one more within T: all of those then finish at T, so the lowest ranks get it.
#include "lb/partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "lb/hash.h"

namespace evenstep::lb {
namespace {

__extension__ typedef __int128 Wide;

const SizeTable linear_table;

// The limits of one solve, in samples.
struct Problem {
  std::span<const RankCost> ranks;
  const SizeTable& table;
  Samples batch;
  Samples granule;
  Samples rest;      // batch mod granule, taken by one rank
  bool least_holds;  // false: the sum of least is above the batch

  Samples floor_granules(Samples share) const { return share - share % granule; }
  Samples least(const RankCost& rank) const {
    if (!least_holds) return 0;
    return std::min(floor_granules(rank.least + granule - 1), floor_granules(rank.most));
  }
  // Largest share of any form within `time`: it bounds whole granules and the ragged share alike.
  Samples cap(const RankCost& rank, Nanoseconds time) const {
    const Samples within = std::max(largest_share(rank.cost, table, time), least(rank));
    return std::min({within, rank.most, batch});
  }
};

// What all ranks together can do within a time.
struct Capacity {
  Samples whole = 0;        // whole granules, in samples
  int ragged_on_top = -1;   // lowest rank that can take the rest on top of its whole granules
  int ragged_instead = -1;  // lowest rank that can give up a granule to take the rest

  bool holds(const Problem& problem) const {
    const Samples needed = problem.batch - problem.rest;
    if (problem.rest == 0) return whole >= needed;
    return (whole >= needed && ragged_on_top >= 0) ||
           (whole >= needed + problem.granule && ragged_instead >= 0);
  }
};

Capacity capacity(const Problem& problem, Nanoseconds time) {
  Capacity total;
  for (std::size_t r = 0; r < problem.ranks.size(); ++r) {
    const RankCost& rank = problem.ranks[r];
    const Samples cap = problem.cap(rank, time);
    const Samples whole = problem.floor_granules(cap);
    total.whole += whole;
    if (total.ragged_on_top < 0 && cap - whole >= problem.rest)
      total.ragged_on_top = static_cast<int>(r);
    if (total.ragged_instead < 0 && whole >= problem.least(rank) + problem.granule)
      total.ragged_instead = static_cast<int>(r);
  }
  return total;
}

// The ends of the search: no rank finishes anything in negative time, all finish by the latest of
// their largest shares. Shares that `least` imposes do not count: they are taken anyhow.
struct Bracket {
  Nanoseconds infeasible = -1;
  Nanoseconds feasible = 0;
};

Bracket outer_bracket(const Problem& problem) {
  Bracket bracket;
  for (const RankCost& rank : problem.ranks)
    bracket.feasible = std::max(
        bracket.feasible, finish_ns(rank.cost, problem.table, std::min(rank.most, problem.batch)));
  return bracket;
}

// Where a straight line between the bracket's ends meets the batch: capacity is nearly linear.
Nanoseconds interpolate(const Problem& problem, const Bracket& bracket, Samples low, Samples high) {
  const Wide width = bracket.feasible - bracket.infeasible;
  const Wide rise = std::max<Wide>(1, high - low);
  const Wide step = width * std::max<Wide>(0, problem.batch - low) / rise;
  return bracket.infeasible + static_cast<Nanoseconds>(std::clamp<Wide>(step, 1, width - 1));
}

Nanoseconds least_finish(const Problem& problem) {
  Bracket bracket = outer_bracket(problem);
  Samples low = 0;
  Samples high = capacity(problem, bracket.feasible).whole;
  for (int turn = 0; bracket.feasible - bracket.infeasible > 1; ++turn) {
    const Nanoseconds middle =
        turn % 3 == 2 ? bracket.infeasible + (bracket.feasible - bracket.infeasible) / 2
                      : interpolate(problem, bracket, low, high);
    const Capacity at = capacity(problem, middle);
    if (at.holds(problem)) {
      bracket.feasible = middle;
      high = at.whole;
    } else {
      bracket.infeasible = middle;
      low = at.whole;
    }
  }
  return bracket.feasible;
}

void hand_out(const Problem& problem, Nanoseconds finish, std::span<Samples> shares) {
  const Capacity at = capacity(problem, finish);
  const Samples needed = problem.batch - problem.rest;
  const bool on_top = problem.rest != 0 && at.whole >= needed && at.ragged_on_top >= 0;
  const int ragged = problem.rest == 0 ? -1 : on_top ? at.ragged_on_top : at.ragged_instead;
  const auto cap_at = [&](std::size_t r, Nanoseconds time) {
    const Samples whole = problem.floor_granules(problem.cap(problem.ranks[r], time));
    const bool gives_up = static_cast<int>(r) == ragged && !on_top;
    return gives_up
               ? std::min(whole, problem.floor_granules(problem.cap(problem.ranks[r], finish)) -
                                     problem.granule)
               : whole;
  };
  Samples left = needed;
  for (std::size_t r = 0; r < shares.size(); ++r) left -= shares[r] = cap_at(r, finish - 1);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const Samples more = std::min(left, cap_at(r, finish) - shares[r]);
    shares[r] += more;
    left -= more;
  }
  if (ragged >= 0) shares[static_cast<std::size_t>(ragged)] += problem.rest;
}

Problem make_problem(const SolverInput& input) {
  Problem problem{input.ranks,
                  input.table != nullptr ? *input.table : linear_table,
                  input.batch,
                  input.granule,
                  input.batch % input.granule,
                  true};
  Samples least = 0;
  for (const RankCost& rank : input.ranks) least += std::min(problem.least(rank), input.batch + 1);
  problem.least_holds = least <= input.batch - problem.rest;
  return problem;
}

}  // namespace

Nanoseconds solve_partition(const SolverInput& input, std::span<Samples> shares) {
  const Problem problem = make_problem(input);
  const Capacity most = capacity(problem, largest_field);
  if (!most.holds(problem))
    throw InfeasiblePartition(
        fmt::format("{} ranks can take at most {} samples, the global batch is {}; lower the "
                    "global batch or raise the ranks' most",
                    input.ranks.size(), most.whole, input.batch));
  hand_out(problem, least_finish(problem), shares);
  Nanoseconds finish = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    finish = std::max(finish, finish_ns(input.ranks[r].cost, problem.table, shares[r]));
  return finish;
}

void apportion(std::span<const Samples> weights, Samples batch, std::span<Samples> shares) {
  Wide total = 0;
  for (Samples weight : weights) total += weight;
  if (total <= 0) throw std::invalid_argument("apportion: the weights add up to nothing");
  Wide before = 0;
  for (std::size_t r = 0; r < weights.size(); ++r) {
    const Wide after = before + weights[r];
    shares[r] = static_cast<Samples>(after * batch / total - before * batch / total);
    before = after;
  }
}

std::uint32_t partition_hash(std::span<const Samples> shares) {
  Hash24 hash;
  for (Samples share : shares) hash.add(static_cast<std::uint64_t>(share));
  return hash.value();
}

}  // namespace evenstep::lb
