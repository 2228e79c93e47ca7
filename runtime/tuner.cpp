#include "runtime/tuner.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

namespace evenstep {
namespace {

// Cold ones, and those in which the balancer makes its first large moves.
constexpr std::size_t first_steps = 4;
// Where there are more ways than finalists, beside way 0, these are chosen first.
constexpr std::size_t heat_rounds = 3;
constexpr std::size_t finalists = 3;
// Of two ways that are equally fast, one wins 8 of 9 rounds in 2 cases of 100.
constexpr std::size_t final_rounds = 9;
constexpr std::size_t least_wins = 8;
constexpr double least_ratio = 0.99;

double ratio_of(double seconds, double of) { return of > 0 ? seconds / of : 1; }

}  // namespace

Tuner::Tuner(std::size_t ways) : open_(ways), settled_(ways == 1) {
  std::iota(open_.begin(), open_.end(), std::size_t{0});
  order_ = open_;
  if (settled_) return;
  trials_.seconds.reserve(final_rounds * ways);
  begin_trials(first_steps, ways > finalists + 1 ? heat_rounds : final_rounds);
}

void Tuner::begin_trials(std::size_t first_step, std::size_t rounds) {
  trials_.first_step = first_step;
  trials_.rounds = rounds;
  trials_.seconds.assign(rounds * open_.size(), 0);
}

// Which of the open ways; each round begins with another.
std::size_t Tuner::scheduled(std::size_t step) const {
  const std::size_t trial = step - trials_.first_step;
  if (step < trials_.first_step || trial >= trials_.seconds.size()) return 0;
  return (trial + trial / open_.size()) % open_.size();
}

void Tuner::end_step(double seconds) {
  if (settled_) return;
  if (ended_ > trials_.first_step) {
    const std::size_t timed = ended_ - 1;
    const std::size_t round = (timed - trials_.first_step) / open_.size();
    trials_.seconds[round * open_.size() + scheduled(timed)] = seconds;
  }
  ++ended_;
  if (ended_ > trials_.first_step + trials_.seconds.size()) end_trials();
  if (!settled_) way_ = open_[scheduled(ended_)];
}

void Tuner::end_trials() {
  if (trials_.rounds == final_rounds) return settle();
  keep_best();
  begin_trials(ended_, final_rounds);
}

// The times of an open way over those of way 0, in ascending order.
double Tuner::ratio_at(std::size_t open, std::size_t place) const {
  std::array<double, final_rounds> ratios;
  for (std::size_t round = 0; round < trials_.rounds; ++round) {
    const double* seconds = trials_.seconds.data() + round * open_.size();
    ratios[round] = ratio_of(seconds[open], seconds[0]);
  }
  const auto all = std::span(ratios).first(trials_.rounds);
  std::ranges::sort(all);
  return all[place];
}

void Tuner::keep_best() {
  const auto best = std::span(order_).subspan(1, finalists);
  std::ranges::sort(std::span(order_).subspan(1), [this](std::size_t one, std::size_t other) {
    return std::pair(median_ratio(one), one) < std::pair(median_ratio(other), other);
  });
  std::ranges::sort(best);
  for (std::size_t i = 0; i < finalists; ++i) open_[i + 1] = open_[best[i]];
  open_.resize(finalists + 1);
}

void Tuner::settle() {
  settled_ = true;
  way_ = 0;
  for (std::size_t open = 1; open < open_.size(); ++open) {
    const double median = median_ratio(open);
    if (ratio_at(open, least_wins - 1) >= 1 || median > least_ratio || median >= ratio_) continue;
    way_ = open_[open];
    ratio_ = median;
  }
}

}  // namespace evenstep
