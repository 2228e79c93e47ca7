#include "runtime/tuner.h"

#include <algorithm>

namespace evenstep {
namespace {

// Cold ones, and those in which the balancer makes its first large moves.
constexpr std::size_t first_steps = 4;
constexpr std::size_t rounds = 9;
// Each round compares all ways within a few steps, so that what drifts is the same for all. Of two
// ways that are equally fast, one wins 8 of 9 rounds in 2 cases of 100.
constexpr std::size_t least_wins = 8;
constexpr double least_ratio = 0.99;

double ratio_of(double seconds, double of) { return of > 0 ? seconds / of : 1; }

}  // namespace

Tuner::Tuner(std::size_t ways) : ways_(ways), settled_(ways == 1) {
  if (!settled_) seconds_.resize(rounds * ways);
}

// Each round begins with another way.
std::size_t Tuner::scheduled_way(std::size_t step) const {
  if (step < first_steps || step >= first_steps + rounds * ways_) return 0;
  const std::size_t trial = step - first_steps;
  return (trial + trial / ways_) % ways_;
}

void Tuner::end_step(double seconds) {
  if (settled_) return;
  const std::size_t timed = ended_ - 1;  // not read where no step came before
  if (ended_ > first_steps) {
    const std::size_t round = (timed - first_steps) / ways_;
    seconds_[round * ways_ + scheduled_way(timed)] = seconds;
  }
  ++ended_;
  way_ = scheduled_way(ended_);
  if (ended_ > first_steps + rounds * ways_) settle();
}

void Tuner::settle() {
  settled_ = true;
  way_ = 0;
  for (std::size_t way = 1; way < ways_; ++way) {
    double ratios[rounds];
    for (std::size_t round = 0; round < rounds; ++round)
      ratios[round] = ratio_of(seconds_[round * ways_ + way], seconds_[round * ways_]);
    std::ranges::sort(ratios);
    const double median = ratios[rounds / 2];
    if (ratios[least_wins - 1] >= 1 || median > least_ratio || median >= ratio_) continue;
    way_ = way;
    ratio_ = median;
  }
}

}  // namespace evenstep
