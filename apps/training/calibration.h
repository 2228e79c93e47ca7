// What is measured before the first step: how sizes compare, and how ranks do.
#pragma once

#include "evenstep/balance.h"
#include "evenstep/communicator.h"
#include "kernels/network.h"

namespace evenstep::train {

/// Relative cost of shares of 0 .. `largest_share` samples, run as chunks of the model's menu:
/// the median over the ranks of what each measured for the menu's sizes. The same on all ranks.
/// Collective, blocking.
std::vector<std::int64_t> measure_size_cost(Communicator& communicator, kernels::Trainable& model,
                                            std::int64_t largest_share);

/// What the sizer `balance` must know of this rank at start; nothing for most. `run(share)`
/// computes a share of so many samples. Collective, blocking.
Forecast measure_forecast(Communicator& communicator, const std::string& balance,
                          std::int64_t global_batch, std::span<const std::int64_t> size_cost,
                          const std::function<void(std::int64_t share)>& run);

}  // namespace evenstep::train
