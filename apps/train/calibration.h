// What is measured before the first step: how sizes compare.
#pragma once

#include "evenstep/communicator.h"
#include "kernels/network.h"

namespace evenstep::train {

/// Relative cost of shares of 0 .. `largest_share` samples, run as chunks of the model's menu:
/// the median over the ranks of what each measured for the menu's sizes. The same on all ranks.
/// Collective, blocking.
std::vector<std::int64_t> measure_size_cost(Communicator& communicator, kernels::Trainable& model,
                                            std::int64_t largest_share);

}  // namespace evenstep::train
