// What ranks tell each other before the first step.
#pragma once

#include <string>
#include <vector>

#include "evenstep/session.h"
#include "lb/record.h"

namespace evenstep {

struct Handshake {
  std::vector<std::string> hosts;   ///< by rank
  std::vector<lb::Record> records;  ///< by rank: limits and forecasts
};

/// Compares version, options and sizes of all ranks, and gathers hosts and start records.
/// Collective, blocking. Throws AgreedError at the first option in which a rank differs from rank
/// 0, with both values.
Handshake shake_hands(Communicator& communicator, const SessionOptions& options);

}  // namespace evenstep
