// The exact integer solver: shares that let the last rank finish as early as possible.
#pragma once

#include <span>
#include <stdexcept>

#include "lb/cost.h"

namespace evenstep::lb {

/// One rank as the solver sees it.
struct RankCost {
  Cost cost;
  Samples least = 0;
  Samples most = largest_field;
};

/// The ranks together cannot take the batch. what() has both numbers.
struct InfeasiblePartition : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct SolverInput {
  std::span<const RankCost> ranks;
  Samples batch = 0;
  Samples granule = 1;               ///< shares are multiples of it, but for one rank's ragged rest
  const SizeTable* table = nullptr;  ///< null: w(b) = b
  Nanoseconds near = 0;  ///< the last finish time: the closer, the quicker; the same answer for any
};

/// Minimises max_r t_r(b_r) over whole shares with sum b_r = batch, least_r <= b_r <= most_r, each
/// b_r a multiple of the granule (0 counts, where least_r is 0); one rank may take the ragged rest
/// batch mod granule on top. least_r counts in whole granules, rounded up, but never above most_r;
/// where the sum of that is more than the batch holds (a short last batch) least is waived.
///
/// Writes the shares to `shares` (one a rank) and returns the finish time in nanoseconds. Exact;
/// a pure function of its input; ties go to the lowest rank. No allocation. Throws
/// InfeasiblePartition if the caps add up to less than the batch.
Nanoseconds solve_partition(const SolverInput& input, std::span<Samples> shares);

/// Shares in proportion to `weights` (not negative, their sum above 0) that add up to exactly
/// `batch`: differences of rounded-down prefix sums, so each is within 1 of its exact part. Throws
/// std::invalid_argument if the sum is 0.
void apportion(std::span<const Samples> weights, Samples batch, std::span<Samples> shares);

/// 24 bits that differ, but for chance, where the partitions differ.
std::uint32_t partition_hash(std::span<const Samples> shares);

}  // namespace evenstep::lb
