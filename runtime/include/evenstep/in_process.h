// Ranks as threads of one process, with clocks that tests can set: for fast tests of the runtime.
#pragma once

#include <functional>
#include <memory>

#include "evenstep/clock.h"
#include "evenstep/communicator.h"

namespace evenstep {

class InProcessWorld {
 public:
  explicit InProcessWorld(int ranks);
  ~InProcessWorld();

  /// The communicator of `rank`; it must not outlive the world.
  std::unique_ptr<Communicator> communicator(int rank);

  /// The clock of `rank`. A sum ends, on all ranks' clocks, when the last rank's clock started it
  /// and the link has carried its values.
  ManualClock& clock(int rank);
  /// How long a sum takes for each byte of a rank, one sum after the other; 0 at first. Before
  /// run().
  void set_link(std::int64_t ns_per_byte);

  /// Runs `body(rank)` on a thread each and waits for all. If one throws, the others' next call
  /// throws too, and the exception that came first is rethrown.
  void run(const std::function<void(int rank)>& body);

 private:
  struct State;
  class Rank;
  std::unique_ptr<State> state_;
};

}  // namespace evenstep
