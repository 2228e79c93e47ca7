// Communicator over MPI.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "evenstep/communicator.h"

namespace evenstep {

/// What a rank does while it waits for others.
///   spin   one blocking call: lowest latency, burns the core
///   yield  polls, and offers the core to other processes between polls
///   sleep  polls, and sleeps in between: leaves core and CPU quota to those who compute
enum class Wait { spin, yield, sleep };

/// "spin", "yield" or "sleep".
const char* name(Wait wait);

struct MpiOptions {
  std::string wait = "auto";  ///< spin, yield, sleep or auto; the same on all ranks
  int threads = 0;            ///< that this rank computes with; 0: its part of the node's cores
  /// Elements of one MPI call: larger sums are cut, since not every MPI has the calls that take
  /// 2^31 and more. The same on all ranks.
  std::size_t largest_count = std::size_t{1} << 30;
};

/// A communicator over a duplicate of `parent`; errors are thrown, never fatal inside MPI.
/// Collective over `parent`, blocking. MPI must outlive it, and be initialised with at least
/// MPI_THREAD_FUNNELED; where it gives less, rank 0 says so once on standard error.
///
/// `auto` sleeps if on any node ranks have more computing threads than the cores they are bound to,
/// or any rank has a CPU quota (control groups, version 1 or 2); otherwise it spins. The choice is
/// the same on all ranks, since MPI does not match blocking calls with nonblocking ones.
///
/// Throws UsageError where this process is alone in MPI although it was started as one of several
/// (a launcher that MPI does not understand), AgreedError for an unknown or differing wait
/// strategy.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm parent,
                                                    const MpiOptions& options = {});

/// The strategy, and the number of threads of this rank, that make_mpi_communicator settled on.
/// Throw std::bad_cast for a communicator that it did not make.
Wait wait_of(const Communicator& communicator);
int threads_of(const Communicator& communicator);

/// Whether every rank has a core for one thread more, on all nodes, and none has a CPU quota.
/// Likewise; the same on all ranks.
bool has_spare_core(const Communicator& communicator);

/// This process's number among those that mpirun or srun started, from its environment; 0 if none.
int launcher_rank();

}  // namespace evenstep
