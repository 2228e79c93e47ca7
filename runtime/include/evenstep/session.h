// Balanced data-parallel training in two calls a step. After the constructor, a rank's loop is
//
//     Share share = session.begin_step();
//     ... write the SUM of its samples' gradients to session.gradients() ...
//     StepResult result = session.end_step({.weight = share.count, .loss = loss_sum});
//     ... update parameters by session.gradients(), now the average over the global batch ...
//
// Averages, times and news travel in one all-reduce; every rank then computes the same next
// partition. There is no coordinator. A code that has an all-reduce of its own: see balance.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evenstep/balance.h"
#include "evenstep/communicator.h"

namespace evenstep {

/// How sums of gradients run while backward is still computing.
///   off     they do not: one blocking call a step, when all gradients are there
///   tests   a bucket is started by gradients_ready when its last gradient is final, and moved
///           along by gradients_ready and progress
///   thread  a thread moves the started ones along (MPI_THREAD_MULTIPLE, and best a core to spare)
enum class Overlap { off, tests, thread };
/// "off", "tests", "thread".
const char* name(Overlap overlap);

/// A rank that all others wait for is named on standard error after warn_seconds in one step's
/// collective, with its host and last phase; after abort_seconds the job is ended. 0: never. A side
/// thread of each rank looks after it; hosts talk by UDP, and one that does not answer is named.
struct StallOptions {
  double warn_seconds = 0;
  double abort_seconds = 0;
};

struct SessionOptions : BalanceOptions {
  std::int64_t gradients = 0;   ///< elements of the gradient vector
  std::string overlap = "off";  ///< off, tests, thread, or auto: the fastest in the first steps
  /// f32; or bf16 or f16: gradients travel rounded (Communicator), half the bytes; the tail never,
  /// which then is a call of its own. f16 has more digits and less range: sums are scaled to it by
  /// those of the steps before; a step whose sums are too large is skipped (StepResult).
  std::string wire = "f32";
  bool average = true;  ///< false: end_step leaves sums, for the optimizer to scale by 1 / weight
  std::int64_t bucket_bytes = 0;  ///< least size of a bucket but the last; 0: measured likewise
  /// Ways in which the caller can run backward: way 0 is the fastest by itself, the others leave
  /// more of it to overlap with, such as a larger last chunk. Measured along with the above.
  int backward_ways = 1;
  /// Where the ranges end that gradients_ready is called with, ascending, as far as known: buckets
  /// are cut there. The same on all ranks.
  std::vector<std::int64_t> layer_ends = {};
  StallOptions stall = {};
  /// Options that must be equal on all ranks, as name and value: checked at start.
  std::vector<std::pair<std::string, std::string>> must_agree = {};
};

/// One rank's end of a training job. Not thread safe. Constructor and end_step: collective; all
/// others, the destructor too: local. Steady steps allocate nothing, make no system
/// call of their own and one all-reduce a bucket.
class Session {
 public:
  /// Compares version, options and sizes over all ranks, and exchanges limits and forecasts.
  /// Collective, blocking. Throws AgreedError if ranks differ or cannot take the batch.
  /// `communicator` must outlive the session.
  Session(Communicator& communicator, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// This rank's share of the next step; `batch`: its global batch, if another than usual (the
  /// epoch's short last one), from 0 to global_batch, the same on all ranks. Local.
  Share begin_step();
  Share begin_step(std::int64_t batch);

  /// The rank's gradient vector, aligned to 64 bytes. Between begin_step and end_step: sums over
  /// the share, to be written by the caller (zeros for an empty share). After end_step: the
  /// average, or the sum over all ranks.
  std::span<float> gradients();
  /// Says that gradients [first, first + count) will be neither written nor read before end_step:
  /// the buckets that they complete are started, under way ones are moved along. Optional, ranges
  /// ascend without gaps; a count of 0 only moves along. Local, does not block. Time in here counts
  /// as waiting, like that in end_step.
  void gradients_ready(std::int64_t first, std::int64_t count);
  /// Moves started buckets along: MPI does nothing by itself. For long stretches of work between
  /// two calls of gradients_ready. Local, does not block.
  void progress();

  /// For callers whose gradients are means over this rank's part: writes weight x means to
  /// gradients [first, ...) in one pass and says that they are ready. `means` may be that very
  /// place. Parts add up to the weight of end_step.
  void put_means(std::int64_t first, std::span<const float> means, double weight);

  /// Sums gradients, weights, losses, metrics and news over all ranks; averages; decides on the
  /// next partition. Collective, blocking. Throws AgreedError, naming the rank, where a rank is at
  /// another step, or has another partition or other parameters.
  StepResult end_step(const StepSums& sums);

  /// Parameters that must stay equal on all ranks: a slice of them is compared in every step. They
  /// must stay at this place.
  void watch_parameters(std::span<const float> parameters);

  /// The time since the last lap (or the last collective) went into `phase`. Local.
  void lap(Phase phase);
  /// Time between pause and resume (evaluation, checkpoints) is nobody's own time. Local.
  void pause();
  void resume();
  /// The next step pays for a start-up: its time says nothing of the rank's speed. The first step
  /// of a session is cold anyhow. Local.
  void mark_cold();
  /// What this rank sees free for itself just before its next step: cores (0: not seen) and memory
  /// in MiB. Travels with the record of the step in progress and stands until the next call. Local.
  void see(double cpu_available, double memory_mib);

  /// By rank, of the last step. The same on all ranks.
  std::span<const RankReport> reports() const;
  /// Shares of the next full batch. The same on all ranks.
  std::span<const std::int64_t> partition() const;
  /// Host names by rank.
  std::span<const std::string> hosts() const;
  /// This rank's time by Phase in the last step, in nanoseconds.
  std::span<const std::int64_t> phase_ns() const;
  /// This rank's own time in the last step, and its time in that step's collectives, from their
  /// start to their end, in nanoseconds.
  std::int64_t own_ns() const;
  std::int64_t last_wait_ns() const;
  /// Time this rank spent deciding on partitions, over all steps, in nanoseconds.
  std::int64_t balance_ns() const;
  int resizes() const;
  /// How the next step's sums run, as how many, and how backward is to run. The same on all ranks.
  Overlap overlap() const;
  int buckets() const;
  int backward_way() const;
  /// Whether that stays so, and the time of a step then, over that of one in the first way tried
  /// (off, where that was open): 1 where nothing was better.
  bool overlap_settled() const;
  double overlap_ratio() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenstep
