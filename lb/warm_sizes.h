// Sizes that a rank has run before, and what a new one costs. Some libraries build kernels for each
// size that they meet: a size is dear once and cheap ever after.
//
// The price is learned from steps in which ranks run new sizes, in lengths of a step: ranks pay at
// the same time, so a re-size costs the same however many ranks it gives a new size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lb/partition.h"

namespace evenstep::lb {

class WarmSizes {
 public:
  WarmSizes(std::size_t ranks, Samples batch, Samples granule);

  /// Whether the rank never ran `share`, as far as is remembered. 0 is never new.
  bool is_new(std::size_t rank, Samples share) const;
  bool any_new(std::span<const Samples> shares) const;
  /// Returns whether it was new.
  bool add(std::size_t rank, Samples share);

  /// Takes a price that `ranks` ranks at new sizes showed in one step.
  void learn(double price, std::size_t ranks);
  /// Of a re-size to new sizes, in steps; 0 where it is too low to matter.
  double price() const { return price_ < least_price ? 0 : price_; }

  /// The partition of warm sizes that finishes first, to within 0.2 %, if that is before `limit`:
  /// writes it to `shares` and returns its finish time; else returns `limit`. Finds none for very
  /// many ranks (N x B above 2^24), nor where the granule does not divide the batch. No allocation.
  Nanoseconds solve(std::span<const RankCost> costs, const SizeTable& table, Nanoseconds limit,
                    std::span<Samples> shares);

  static constexpr double least_price = 1;

 private:
  static constexpr std::size_t remembered = 32;  // sizes of a rank; then the oldest is forgotten

  bool can_solve() const { return !sums_.empty(); }
  std::span<const Samples> sizes(std::size_t rank) const;
  void list_finishes(std::span<const RankCost> costs, const SizeTable& table, Nanoseconds limit);
  bool reaches_batch(Nanoseconds finish);
  void trace_back(Nanoseconds finish, std::span<Samples> shares) const;
  std::span<std::uint64_t> sums(std::size_t ranks);

  Samples granules_;  // of the batch; sums are counted in granules
  Samples granule_;
  std::size_t words_;           // of 64 sums: 0 to the batch
  std::vector<Samples> sizes_;  // `remembered` a rank
  std::vector<std::size_t> added_;
  double price_ = 0;

  std::vector<Nanoseconds> finishes_;  // of sizes_
  std::vector<Nanoseconds> candidates_;
  std::vector<std::uint64_t>
      sums_;  // one row a rank: a bit for each sum that it and those before reach
};

}  // namespace evenstep::lb
