// What evenstep-bench measures: one function each, collective, with its results on rank 0 as JSON
// and as a table on standard output. Times in seconds.
#pragma once

#include <nlohmann/json.hpp>

#include "common/median.h"
#include "evenstep/clock.h"
#include "evenstep/communicator.h"

namespace evenstep::bench {

struct Options {
  std::string what = "all";
  std::string wait = "auto";
  std::string summary;
  double most_mb = 16;               ///< of an all-reduce
  std::int64_t gradients = 250'000;  ///< of a step, where it is the tail that is measured: 1 MB
  std::string model = "cnn";         ///< of what else is measured in steps
  std::int64_t batch = 64;           ///< samples a rank
  std::vector<double> bucket_mb = {0.25, 1, 8};  ///< least sizes of a bucket, to overlap backward
  int pairs = 50;                                ///< of blocks of steps, taken in turn
  std::vector<std::string> balances = {"off"};   ///< sizers that take turns, off first
  std::string overlap = "off";                   ///< of all of them
  double block_seconds = 2;                      ///< of off's turns; the others run as many steps
};

using Json = nlohmann::ordered_json;

/// All-reduce by size and type: ours (f32, under the wait strategy) against plain MPI_Allreduce.
Json measure_all_reduce(Communicator& communicator, const Options& options);

/// What writing and reading the tail costs, decision included, by number of ranks, in this process;
/// and what either tail adds to a step of this job's ranks.
Json measure_tail(Communicator& communicator, const Options& options);

/// How much of the communication hides behind backward: training steps with and without.
Json measure_overlap(Communicator& communicator, const Options& options);

/// Steps of equal ranks with balancing on and off, in turn; and what a steady step allocates and
/// calls.
Json measure_balancing(Communicator& communicator, const Options& options);

/// What of a step is communication, waiting for slower ranks included: how much longer it takes
/// than steps that the ranks run each for itself, all at once.
Json measure_communication(Communicator& communicator, const Options& options);

/// Ways to wait, in turn: how much faster steps are than where ranks sleep.
Json measure_waits(Communicator& communicator, const Options& options);

/// Sizers in turn, where something outside makes the ranks unequal (scripts/throttle-lab).
Json measure_sizers(Communicator& communicator, const Options& options);

/// Seconds that `action` takes.
template <typename Action>
double seconds_of(Action&& action) {
  const std::int64_t start = steady_clock().now_ns();
  action();
  return 1e-9 * static_cast<double>(steady_clock().now_ns() - start);
}

}  // namespace evenstep::bench
