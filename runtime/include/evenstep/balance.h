// Bring your own collective: the layer below Session, for codes that have an all-reduce already (a
// dot product in a solver). It communicates nothing: it writes this rank's numbers behind the
// caller's own in the caller's own buffer, and reads the sums back. A rank's loop is
//
//     Share share = balance.begin_step();
//     ... compute on the share, fill the buffer ...
//     balance.write(tail, {.weight = share.count});
//     MPI_Allreduce(MPI_IN_PLACE, buffer, count + balance.tail_size(), MPI_DOUBLE, MPI_SUM, comm);
//     balance.read(tail);
//
// where `tail` is the buffer's last tail_size() elements, floats or doubles. Every rank then has
// the same next partition.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenstep/clock.h"
#include "evenstep/error.h"

namespace evenstep {

/// What a rank foresees of its own cost, from a benchmark: t(b) = max(floor, fixed + per_sample b).
struct Forecast {
  std::int64_t fixed_ns = 0;
  std::int64_t per_sample_ps = 0;  ///< picoseconds; 0: nothing is foreseen
  std::int64_t floor_ns = 0;
};

/// The same on all ranks, but for this rank's own limits and forecast.
struct BalanceOptions {
  std::int64_t global_batch = 0;   ///< samples (rows, cells, tokens) of a step over all ranks
  std::string balance = "even";    ///< the sizer: even, off, static, ... (lb/sizer.h)
  std::string predictor = "narx";  ///< of the sizer lbbsp-cpu: last, ema, ar or narx
  int lag = 0;                     ///< 0: news of a step steer the next one; 1: the one after it
  std::int64_t granule = 1;        ///< shares are multiples of it, but for one rank's ragged rest
  std::int64_t least_share = 0;    ///< samples this rank must have
  std::int64_t most_share = -1;    ///< samples this rank can take; -1: any number
  int metrics = 0;                 ///< plain sums of the user's own that travel in the same call
  Forecast forecast;               ///< needed by `static` and `lbbsp-gpu-2018`
  /// Relative cost of 0, 1, 2, ... samples, where not proportional; the same on all ranks.
  std::vector<std::int64_t> size_cost = {};
  /// What travels of the ranks' records in a step: "slots", all of them; "rotating", a tail of
  /// constant size in which turns come round and news goes first; "auto", rotating above 256 ranks.
  std::string tail = "auto";
  /// All ranks' bytes by rank, given this rank's. With a rotating tail, all ranks call it after
  /// each of the first two warm steps, to know of everyone before their turns have come, and where
  /// something is wrong, to name the rank. Empty: turns are waited for, ranks may go unnamed.
  std::function<std::vector<std::string>(const std::string&)> gather = {};
  const Clock* clock = nullptr;  ///< null: steady_clock()
};

/// Throws UsageError for options out of range.
void check(const BalanceOptions& options);

/// What must be known of every rank before the first step.
struct RankStart {
  std::string host;  ///< for messages
  std::int64_t least_share = 0;
  std::int64_t most_share = -1;
  Forecast forecast = {};
};

/// What a rank computes in a step: samples [offset, offset + count) of the global batch.
struct Share {
  std::int64_t step = 0;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t batch = 0;  ///< size of this step's global batch
};

/// Sums over this rank's samples.
struct StepSums {
  double weight = 0;  ///< samples, tokens, pixels: what the average is over
  double loss = 0;
  std::span<const double> metrics = {};  ///< BalanceOptions::metrics values
};

enum class Decision { keep, adopt, return_to_best };
/// "keep", "adopt" or "return".
const char* name(Decision decision);

struct StepResult {
  double weight = 0;                   ///< over all ranks
  double loss = 0;                     ///< mean over the weight
  std::span<const double> metrics;     ///< sums over all ranks; valid until the next step's
  bool skipped = false;                ///< no average: the weight is zero, or (Session) the sums
                                       ///< are too large for the wire
  int not_finite_ranks = 0;            ///< whose loss or weight is not finite
  int not_finite_rank = -1;            ///< the lowest of them that is known
  Decision decision = Decision::keep;  ///< about the next step's partition
};

/// Parts of a rank's own time. Update counts from one step's collective to the next one's load.
enum class Phase { load, forward, backward, update };
inline constexpr int phases = 4;
/// "load", "forward", "backward", "update".
const char* name(Phase phase);

/// What every rank knows of a rank after a step. With a rotating tail, times are of the last step
/// that the rank had its turn or news in.
struct RankReport {
  std::int64_t samples = 0;
  std::int64_t own_ns = 0;   ///< of this step: from the last collective's exit to this one's entry
  std::int64_t wait_ns = 0;  ///< in the previous step's collectives
  double cpu_cores = 0;      ///< seen available just before the next step; 0: not seen
};

/// One rank's copy of the balancer, with its clock. Every call is local; not thread safe. Steady
/// steps allocate nothing and make no system call.
class Balance {
 public:
  /// `ranks`: one entry a rank, the same on all ranks. Throws as check() does, and AgreedError
  /// where the ranks together cannot take the batch.
  Balance(int rank, std::span<const RankStart> ranks, const BalanceOptions& options);
  /// For ranks that all have this rank's limits and forecast.
  Balance(int rank, int ranks, const BalanceOptions& options);
  ~Balance();
  Balance(const Balance&) = delete;
  Balance& operator=(const Balance&) = delete;

  /// This rank's share of the next step; `batch`: its global batch, if another than usual (the
  /// epoch's short last one), from 0 to global_batch, the same on all ranks.
  Share begin_step();
  Share begin_step(std::int64_t batch);

  /// Elements of the tail, the same in every step.
  std::size_t tail_size() const;
  /// Ends this rank's own part of the step and writes all of `tail`. Next: the caller's all-reduce
  /// (SUM), in place or not.
  void write(std::span<float> tail, const StepSums& sums);
  void write(std::span<double> tail, const StepSums& sums);
  /// Takes the tail as summed over all ranks and moves on to the next step, whose own time begins
  /// here. Throws AgreedError, naming the rank, where a rank is at another step, or has another
  /// partition or other parameters.
  StepResult read(std::span<const float> tail);
  StepResult read(std::span<const double> tail);

  /// Parameters that must stay equal on all ranks: a slice of them is compared in every step. They
  /// must stay at this place.
  void watch_parameters(std::span<const float> parameters);

  /// The time since the last lap (or the last collective) went into `phase`.
  void lap(Phase phase);
  /// Time between pause and resume (other collectives, evaluation, checkpoints) is nobody's own.
  void pause();
  void resume();
  /// Around calls before write() that start nonblocking collectives or move them along: such time
  /// is waiting, not this rank's own.
  void begin_call();
  void end_call();
  /// Between write() and read(): so much of the time since is not waiting for others; this rank was
  /// kept from running, by a quota of CPU time that it had used up. It counts as its own time of
  /// the next step, in the phase that ends first.
  void charge(std::int64_t ns);
  /// The next step pays for a start-up: its time says nothing of the rank's speed. The first step
  /// is cold anyhow.
  void mark_cold();
  /// What this rank sees free for itself just before its next step: cores (0: not seen) and memory
  /// in MiB. Travels with the record of the step in progress and stands until the next call.
  void see(double cpu_available, double memory_mib);

  /// By rank, of the last step. The same on all ranks.
  std::span<const RankReport> reports() const;
  /// Shares of the next full batch. The same on all ranks.
  std::span<const std::int64_t> partition() const;
  /// This rank's time by Phase in the last step, in nanoseconds.
  std::span<const std::int64_t> phase_ns() const;
  /// This rank's own time in the last step, and its time in begin_call to end_call and in write to
  /// read, in nanoseconds.
  std::int64_t own_ns() const;
  std::int64_t last_wait_ns() const;
  /// Time this rank spent deciding on partitions, over all steps, in nanoseconds.
  std::int64_t balance_ns() const;
  int resizes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenstep
