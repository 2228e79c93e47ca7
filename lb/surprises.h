// What surprises of late were worth, over all ranks: how often a rank that
// seemed slower stayed so, and how soon ranks that had become fast again fell
// back.
#pragma once

#include <cstddef>

namespace evenstep::lb {

class Surprises {
 public:
  explicit Surprises(std::size_t ranks) : ranks_(static_cast<double>(ranks)) {}

  /// A surprise is over: the rank stayed slower, or it did not.
  void ended(bool lasted);
  /// Whether a rank that seems `ratio` times slower should be sized so at once.
  /// To be wrong costs a little of its share; not to believe costs all ranks
  /// the whole difference, if it lasts.
  bool believe(double ratio) const;

  /// Slow readings in a row that make a change for good.
  int needed_to_be_slower() const;

  /// A rank that had become fast was slow again after `steps`; or is still fast
  /// after more than relapse_steps.
  void recovery_ended(int steps);
  /// Fast readings in a row until a recovery is to be believed.
  int patience() const;

  static constexpr int relapse_steps = 40;  ///< a fall so soon after a recovery is a relapse
  static constexpr int least_patience = 2;
  static constexpr int most_patience = 64;

 private:
  double ranks_;
  double lasting_ = 0.7;
  double surprises_ = 2;
  double relapses_ = 0;
  double recoveries_ = 1;
  double longest_recovery_steps_ = 0;  // that ended in a relapse
};

}  // namespace evenstep::lb
