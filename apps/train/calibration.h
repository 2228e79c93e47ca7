// What is measured before the first step: how sizes compare, and how fast each rank is.
#pragma once

#include <functional>

#include "evenstep/session.h"
#include "kernels/network.h"

namespace evenstep::train {

/// Relative cost of shares of 0 .. `largest_share` samples, run as chunks of the network's menu:
/// the median over the ranks of what each measured for the menu's sizes. The same on all ranks.
/// Collective, blocking.
std::vector<std::int64_t> measure_size_cost(Communicator& communicator, kernels::Network& network,
                                            std::int64_t largest_share);

/// Repeats `run` (a share of the job's usual kind) until its mean time is known to 2.5 % with a
/// confidence of 98 % (Student's t; FuPerMod, Clarke et al. 2014), at least 5 and at most 50 times.
/// Returns the mean in nanoseconds. Local.
std::int64_t benchmark_ns(const std::function<void()>& run);

}  // namespace evenstep::train
