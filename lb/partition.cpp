// The finish time T is searched in whole nanoseconds: a rank's largest share within T never shrinks
// as T grows, so the least T in which all ranks together can take the batch is found by narrowing a
// bracket: by Newton's method to within a few samples, then straight to the time at which the last
// of these few is finished. At that T every rank takes what it could within T - 1, and what is left
// goes to ranks that can take one more within T: all of those then finish at T, so the lowest ranks
// get it.
#include "lb/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  Samples rest;       // batch mod granule, taken by one rank
  bool least_holds;   // false: the sum of least is above the batch
  Nanoseconds guess;  // of the finish time: the caller's, or without regard to limits and floors

  Samples floor_granules(Samples share) const {
    return granule == 1 ? share : share - share % granule;
  }
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
  double per_ns = 0;        // how fast `whole` grows with the time, but for rounding
  int ragged_on_top = -1;   // lowest rank that can take the rest on top of its whole granules
  int ragged_instead = -1;  // lowest rank that can give up a granule to take the rest

  bool holds(const Problem& problem) const {
    const Samples needed = problem.batch - problem.rest;
    if (problem.rest == 0) return whole >= needed;
    return (whole >= needed && ragged_on_top >= 0) ||
           (whole >= needed + problem.granule && ragged_instead >= 0);
  }
};

double per_ns(const Cost& cost) {
  return 1000.0 / static_cast<double>(std::max<Picoseconds>(1, cost.per_sample_ps));
}

Capacity capacity(const Problem& problem, Nanoseconds time) {
  Capacity total;
  for (std::size_t r = 0; r < problem.ranks.size(); ++r) {
    const RankCost& rank = problem.ranks[r];
    const Samples least = problem.least(rank);
    const Samples most = std::min(rank.most, problem.batch);
    const Samples cap =
        std::min(std::max(largest_share(rank.cost, problem.table, time), least), most);
    const Samples whole = problem.floor_granules(cap);
    total.whole += whole;
    if (cap > least && cap < most) total.per_ns += per_ns(rank.cost);
    if (total.ragged_on_top < 0 && cap - whole >= problem.rest)
      total.ragged_on_top = static_cast<int>(r);
    if (total.ragged_instead < 0 && whole >= least + problem.granule)
      total.ragged_instead = static_cast<int>(r);
  }
  return total;
}

// The search for the least time that holds the batch; largest_field where there is none.
class Search {
 public:
  // `scratch`: one element a rank.
  Search(const Problem& problem, std::span<Nanoseconds> scratch)
      : problem_(problem), scratch_(scratch) {}

  Nanoseconds run() {
    for (int turn = 0; turn < newton_turns && width() > 1 && !is_near(); ++turn) probe(newton());
    if (width() > 1 && is_near()) probe_events();
    for (int turn = 0; width() > 1; ++turn) probe(turn % 2 == 1 ? middle() : between());
    return feasible_;
  }

 private:
  static constexpr int newton_turns = 6;

  Nanoseconds width() const { return feasible_ - infeasible_; }
  Nanoseconds middle() const { return infeasible_ + width() / 2; }

  void probe(Nanoseconds time) {
    const Capacity before = std::exchange(last_, capacity(problem_, time));
    // Floors that are passed add to what costs a sample tell.
    if (last_time_ >= 0 && time != last_time_)
      last_.per_ns = std::max(last_.per_ns, static_cast<double>(last_.whole - before.whole) /
                                                static_cast<double>(time - last_time_));
    last_time_ = time;
    if (last_.holds(problem_)) {
      feasible_ = time;
      high_ = last_.whole;
    } else {
      infeasible_ = time;
      low_ = last_.whole;
    }
  }

  // Infeasible for want of no more granules than there are ranks.
  bool is_near() const {
    return infeasible_ >= 0 && missing() <= most_missing() && problem_.rest == 0;
  }
  Samples missing() const { return (problem_.batch - problem_.rest - low_) / problem_.granule; }
  Samples most_missing() const {
    return std::min<Samples>(static_cast<Samples>(scratch_.size()),
                             8 + static_cast<Samples>(scratch_.size()) / 16);
  }

  // Aims a little below the batch: from there the exact time is one more step.
  Nanoseconds newton() const {
    if (last_time_ < 0) return inside(static_cast<double>(problem_.guess));
    if (last_.per_ns <= 0) return middle();
    const Samples below = most_missing() / 2 * problem_.granule;
    const auto off = static_cast<double>(problem_.batch - last_.whole - below);
    return inside(static_cast<double>(last_time_) + off / last_.per_ns);
  }
  Nanoseconds inside(double time) const {
    const double clamped = std::clamp(time, 0.0, static_cast<double>(largest_field));
    return std::clamp(static_cast<Nanoseconds>(clamped), infeasible_ + 1, feasible_ - 1);
  }

  // Where a straight line between the bracket's ends meets the batch: capacity is nearly linear.
  Nanoseconds between() const {
    const Wide rise = std::max<Wide>(1, high_ - low_);
    const Wide step = Wide{width()} * std::max<Wide>(0, problem_.batch - low_) / rise;
    return infeasible_ + static_cast<Nanoseconds>(std::clamp<Wide>(step, 1, width() - 1));
  }

  // The missing granules are finished by the time at which so many ranks have finished one more
  // each, and no earlier, but where a rank finishes several of them (at its floor).
  void probe_events() {
    for (std::size_t r = 0; r < scratch_.size(); ++r) scratch_[r] = next_event(problem_.ranks[r]);
    const auto last = scratch_.begin() + (missing() - 1);
    std::ranges::nth_element(scratch_, last);
    if (*last >= feasible_) return;
    feasible_ = *last;
    if (width() > 1) probe(feasible_ - 1);
  }
  Nanoseconds next_event(const RankCost& rank) const {
    const Samples next =
        problem_.floor_granules(problem_.cap(rank, infeasible_)) + problem_.granule;
    const bool allowed = next <= std::min(rank.most, problem_.batch);
    return allowed ? hull_finish_ns(rank.cost, problem_.table, next) : largest_field;
  }

  const Problem& problem_;
  std::span<Nanoseconds> scratch_;
  Nanoseconds infeasible_ = -1;  // nobody finishes anything in negative time
  Nanoseconds feasible_ = largest_field;
  Samples low_ = 0;  // capacities at the two
  Samples high_ = 0;
  Capacity last_;
  Nanoseconds last_time_ = -1;
};

void hand_out(const Problem& problem, Nanoseconds finish, std::span<Samples> shares) {
  const Capacity at = problem.rest == 0 ? Capacity{} : capacity(problem, finish);
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
  for (std::size_t r = 0; r < shares.size() && left > 0; ++r) {
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
                  true,
                  0};
  Samples least = 0;
  double rate = 0;
  double head_start = 0;  // samples that fixed costs keep the ranks from
  for (const RankCost& rank : input.ranks) {
    least += std::min(problem.least(rank), input.batch + 1);
    rate += per_ns(rank.cost);
    head_start += per_ns(rank.cost) * static_cast<double>(rank.cost.fixed_ns);
  }
  problem.least_holds = least <= input.batch - problem.rest;
  if (input.near > 0) {
    problem.guess = input.near;
    return problem;
  }
  const double guess = (static_cast<double>(input.batch) + head_start) / rate;
  problem.guess = static_cast<Nanoseconds>(std::min(guess, static_cast<double>(largest_field)));
  return problem;
}

void refuse_if_infeasible(const Problem& problem) {
  const Capacity most = capacity(problem, largest_field);
  if (!most.holds(problem))
    throw InfeasiblePartition(
        fmt::format("{} ranks can take at most {} samples{}, the global batch is {}; lower the "
                    "global batch or raise the ranks' most",
                    problem.ranks.size(), most.whole,
                    problem.granule > 1 ? fmt::format(" in granules of {}", problem.granule) : "",
                    problem.batch));
}

}  // namespace

Nanoseconds solve_partition(const SolverInput& input, std::span<Samples> shares) {
  const Problem problem = make_problem(input);
  const Nanoseconds least = Search(problem, shares).run();
  if (least == largest_field) refuse_if_infeasible(problem);
  hand_out(problem, least, shares);
  Nanoseconds finish = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    finish = std::max(finish, hull_finish_ns(input.ranks[r].cost, problem.table, shares[r]));
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
