// Sums an arena over all ranks. Backward tells it which gradients are final, so that a reducer may
// start their sum early; this one does not: one blocking call when all are there.
#pragma once

#include <cstdint>

#include "evenstep/communicator.h"
#include "runtime/gradient_arena.h"

namespace evenstep {

class Reducer {
 public:
  Reducer(Communicator& communicator, GradientArena& arena)
      : communicator_(communicator), arena_(arena) {}

  /// Gradients [first, first + count) are final. Local.
  void ready(std::int64_t /*first*/, std::int64_t /*count*/) {}
  /// The whole arena is final: sums what was not started yet and waits for all. Collective.
  void finish() { communicator_.sum(arena_.all()); }

 private:
  Communicator& communicator_;
  GradientArena& arena_;
};

}  // namespace evenstep
