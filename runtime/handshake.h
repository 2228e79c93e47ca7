// What ranks tell each other before the first step.
#pragma once

#include <vector>

#include "evenstep/session.h"

namespace evenstep {

/// Compares version, options and sizes of all ranks, and gathers hosts, limits and forecasts.
/// Collective, blocking. Throws AgreedError at the first option in which a rank differs from rank
/// 0, with both values.
std::vector<RankStart> shake_hands(Communicator& communicator, const SessionOptions& options);

}  // namespace evenstep
