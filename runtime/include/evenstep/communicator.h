// What the runtime asks of a communication library: MPI (mpi.h), threads of one process
// (in_process.h), later NCCL.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "evenstep/error.h"

namespace evenstep {

/// A bfloat16 number's bits: the upper half of an fp32 number's.
enum class Bf16 : std::uint16_t {};
/// An IEEE 754 binary16 number's bits: up to 65504, with all its digits from 2^-14 on.
enum class F16 : std::uint16_t {};

/// Whether a thread of the communicator's own can move sums along while the rank computes.
///   no      the library does not allow it
///   yes     it does, but the thread would take a core from those who compute
///   spare   it does, and there is a core for it on every node
enum class ProgressThread { no, yes, spare };

/// One rank's end of a group of ranks. Not thread safe: one thread a rank makes all calls.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Name of the machine this rank runs on.
  virtual const std::string& host() const = 0;

  /// Starts an in-place sum of `values` over all ranks. Collective, returns at once; `values` must
  /// stay untouched until wait() returns. Sums end in the order they were started.
  virtual void start_sum(std::span<float> values) = 0;
  /// Likewise. Every addition on the way rounds its result to bf16: with N ranks the error is up to
  /// N - 1 roundings of 2^-8 each, relative to the partial sums. Of random gradients summed in rank
  /// order (tests/runtime/wire_test.cpp) it is 0.2 % of the norm with 1 to 5 ranks, 0.35 % with 8,
  /// their own rounding to bf16 included.
  virtual void start_sum(std::span<Bf16> values) = 0;
  /// Likewise with F16: roundings of 2^-11, by the same test 0.007 % to 0.033 % of the norm with 1
  /// to 8 ranks. A partial sum above 65504 becomes infinite.
  virtual void start_sum(std::span<F16> values) = 0;
  /// Moves started sums along; true if all have ended. Local.
  virtual bool progress() = 0;
  /// Blocks until all started sums have ended, in the way the wait strategy says.
  virtual void wait() = 0;
  /// In-place sum over all ranks. Collective and blocking; the same bits on all ranks.
  virtual void sum(std::span<float> values) {
    start_sum(values);
    wait();
  }
  virtual void sum(std::span<Bf16> values) {
    start_sum(values);
    wait();
  }
  virtual void sum(std::span<F16> values) {
    start_sum(values);
    wait();
  }

  /// The same on all ranks.
  virtual ProgressThread progress_thread() const { return ProgressThread::no; }
  /// From now on a thread moves sums along, until wait(). Where progress_thread() is `no`: nothing.
  /// Local.
  virtual void progress_in_background() {}

  /// Time in wait() so far in which this rank would have looked after its sums, but had used up its
  /// quota of CPU time (cgroups). 0 where it has none, and where it does not sleep. Local.
  virtual std::int64_t throttled_ns() const { return 0; }

  /// Every rank's bytes, by rank. Collective and blocking; for start, evaluation and recovery,
  /// never in a step.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;

  /// Ends the whole job at once, for errors that the other ranks cannot know of. Does not return
  /// with MPI; in-process ranks see their next call throw.
  virtual void abort(int exit_code) = 0;

  /// Sums started so far, counted in library calls.
  virtual std::int64_t sum_calls() const = 0;
};

/// Runs `action`, then lets all ranks know how it went: if it threw on any rank, every rank throws
/// an AgreedError with the text and exit code of the lowest rank that failed. Collective, blocking.
void agree_on_errors(Communicator& communicator, const std::function<void()>& action);

}  // namespace evenstep
