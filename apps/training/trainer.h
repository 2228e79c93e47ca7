// A training run of one rank: set-up, the loop over steps, and what is told at the end.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/output_file.h"
#include "evenstep/availability.h"
#include "evenstep/mpi.h"
#include "kernels/profile.h"
#include "runtime/huge_pages.h"
#include "training/options.h"
#include "training/progress.h"
#include "training/slowdown.h"
#include "training/statistics.h"
#include "training/step_log.h"
#include "training/workload.h"

namespace evenstep::train {

/// Makes what is trained; may set options that depend on the data. Local; runs with the threads
/// that this rank computes with.
using MakeWorkload = std::function<std::unique_ptr<Workload>(Options&)>;

class Trainer {
 public:
  /// Makes the workload, opens outputs on rank 0, calibrates and shakes hands.
  /// Collective, blocking. Throws AgreedError.
  Trainer(Communicator& communicator, Options options, const MakeWorkload& make_workload);

  /// Trains, evaluates, writes what was asked for, prints the table on rank 0. Collective.
  void run();

 private:
  struct Sums {
    double loss = 0;
    double correct = 0;
  };

  void set_up_locally(const MakeWorkload& make_workload);
  void open_outputs();
  void refuse_different_options();
  void set_up_session();
  SessionOptions session_options() const;
  void run_for_benchmark(std::int64_t share, std::span<float> gradients);

  kernels::Trainable& model() const { return workload_->model(); }
  struct Batch {
    std::int64_t epoch;
    std::int64_t position;  // of its first sample in the epoch's order
    std::int64_t samples;
  };

  std::int64_t steps_per_epoch() const;
  Batch batch_of(std::int64_t step) const;
  void train_step(std::int64_t step);
  Sums run_share(const Share& share, std::int64_t epoch, std::int64_t epoch_position);
  void load_any();
  void foresee_samples(std::int64_t step, const Share& share);
  void start_prefetch();
  void consider_prefetch(std::int64_t step);
  void update(const StepResult& result, std::int64_t step);
  void refuse_not_finite(const StepResult& result, std::int64_t step) const;
  void count_skipped(const StepResult& result, std::int64_t step);
  double clipped(std::span<const float> sums, double scale, std::int64_t step) const;
  void profile(bool on);
  int last_chunk(std::int64_t share) const;
  std::int64_t mean_share() const { return options_.step_batch() / communicator_.size(); }
  void tell_overlap(std::int64_t step);
  void evaluate(std::int64_t step);
  void finish(double wall_seconds);

  Communicator& communicator_;
  Options options_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Prefetcher> prefetcher_;  // after the workload: it ends before what it uses
  std::optional<kernels::Profile> profile_;
  std::vector<float, HugePageAllocator<float>> parameters_;
  std::vector<double> last_parts_;  // by the session's ways to run backward
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Slowdown> slowdown_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<AvailabilityProbe> probe_;

  std::int64_t total_steps_ = 0;
  std::int64_t skipped_steps_ = 0;
  double last_loss_ = 0;
  double test_loss_ = 0;
  double test_accuracy_ = -1;      // below 0: not evaluated
  std::int64_t calls_before_ = 0;  // sums before the step from which they are counted
  std::int64_t counted_from_ = 0;
  double collectives_per_step_ = 0;
  bool overlap_told_ = false;
  bool may_prefetch_ = false;  // where it is worth it
  std::int64_t load_ns_ = 0;   // of the steps that --prefetch auto goes by, and all own time
  std::int64_t own_ns_ = 0;

  OutputFile summary_file_;
  OutputFile timeline_file_;
  std::unique_ptr<StepLog> log_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<Statistics> statistics_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace evenstep::train
