#include "lb/surprises.h"

#include <algorithm>

namespace evenstep::lb {
namespace {

constexpr double memory = 0.97;            // of a surprise, per later one
constexpr double cost_of_believing = 0.5;  // per wrong sizing-down, in steps
constexpr double rarely_lasting = 0.3;     // below it two in a row may still be chance
constexpr double patience_margin = 1.25;

}  // namespace

void Surprises::ended(bool lasted) {
  lasting_ = memory * lasting_ + (lasted ? 1 : 0);
  surprises_ = memory * surprises_ + 1;
}

bool Surprises::believe(double ratio) const {
  const double lasting = lasting_ / surprises_;
  // In lengths of a usual step: what the next one takes if the rank keeps its share, to be
  // expected, and what it takes with the rank sized down and the others up.
  const double kept = 1 + lasting * (ratio - 1);
  const double sized_down = ranks_ * ratio / ((ranks_ - 1) * ratio + 1);
  return kept > sized_down && lasting * ratio > (1 - lasting) * cost_of_believing;
}

int Surprises::needed_to_be_slower() const {
  return lasting_ < rarely_lasting * surprises_ ? 3 : 2;
}

void Surprises::recovery_ended(int steps) {
  relapses_ = memory * relapses_ + (steps <= relapse_steps ? 1 : 0);
  recoveries_ = memory * recoveries_ + 1;
  longest_recovery_steps_ = std::max(memory * longest_recovery_steps_,
                                     static_cast<double>(std::min(steps, relapse_steps)));
}

int Surprises::patience() const {
  if (relapses_ < 0.5 * recoveries_) return least_patience;
  return static_cast<int>(longest_recovery_steps_ * patience_margin) + 2;
}

}  // namespace evenstep::lb
