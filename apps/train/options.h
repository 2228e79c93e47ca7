// The command line of evenstep-train (design, section 6): one place for every knob's name, default
// and help.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "evenstep/optimizer.h"
#include "evenstep/session.h"
#include "kernels/network.h"

namespace evenstep::train {

/// A delay on one rank's training thread, for tests and demonstrations.
struct Injection {
  int rank = 0;
  int phase = 0;  ///< of evenstep::Phase
  std::int64_t delay_ns = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = INT64_MAX;
};

struct Options {
  std::string model = "cnn";
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::int64_t global_batch = 128;
  std::int64_t accumulate = 1;  ///< global batches in one step
  std::int64_t epochs = 1;
  std::int64_t steps = 0;  ///< 0: as many as the epochs have
  std::uint64_t seed = 1;
  bool evaluate = true;
  std::string balance = "even";
  std::string predictor = "narx";
  std::string tail = "auto";
  StallOptions stall = {.warn_seconds = 60};
  std::string wait = "auto";
  std::string overlap = "auto";
  double bucket_mb = 0;  ///< 0: measured
  kernels::Dtype dtype = kernels::Dtype::f32;
  int threads = 0;  ///< 0: this rank's part of the node's cores
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  double clip = 0;  ///< 0: no clipping
  double label_smoothing = 0;
  std::string summary;
  std::string log;
  std::string timeline;
  bool profile = false;
  std::vector<double> emulate;
  std::vector<Injection> injections;

  /// Samples of a step: --global-batch times --accumulate.
  std::int64_t step_batch() const { return global_batch * accumulate; }

  /// The options as given, for the check that all ranks have the same.
  std::vector<std::pair<std::string, std::string>> given;
};

/// Throws UsageError with the option, the value and what would do, or TextAsked.
Options parse_options(int argc, char** argv);

/// Checks what depends on the number of ranks. Throws UsageError.
void check_against_world(const Options& options, int ranks);

}  // namespace evenstep::train
