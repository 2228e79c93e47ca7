// What static partitioning goes by: how long each rank takes for a share while all ranks compute at
// once, since ranks that share cores, caches or memory slow each other down.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "evenstep/balance.h"
#include "evenstep/communicator.h"

namespace evenstep {

/// Mean nanoseconds that `run(size)` takes, for each of `sizes` (samples of a share; as many on all
/// ranks). A size is repeated until its mean is known to 2.5 % with a confidence of 98 % (Student's
/// t; FuPerMod, D. Clarke et al. 2014): at least 5 times; no more once 50 runs or 2 seconds are
/// over. All ranks start a size together, and a rank that knows its mean goes on computing until
/// all do. Collective, blocking.
std::vector<std::int64_t> benchmark(Communicator& communicator, std::span<const std::int64_t> sizes,
                                    const std::function<void(std::int64_t size)>& run,
                                    const Clock& clock = steady_clock());

/// The forecast max(floor, fixed + per_sample w) nearest to `times_ns` at `work`, ascending and
/// above 0 (w(b) is b, or what BalanceOptions::size_cost makes of it): least squares of relative
/// errors, for each number of small sizes that may lie on the floor. One size alone: all of its
/// time is per sample. Local. Throws UsageError for no sizes or times below 1.
Forecast fit_forecast(std::span<const double> work, std::span<const std::int64_t> times_ns);

/// w(b) of each of `sizes` for fit_forecast. Local.
std::vector<double> work_of(std::span<const std::int64_t> sizes,
                            std::span<const std::int64_t> size_cost);

}  // namespace evenstep
