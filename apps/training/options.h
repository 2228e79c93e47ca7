// What the command lines of all training programs share (design, section 6): one place for every
// knob's name, default and help.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenstep/optimizer.h"
#include "evenstep/session.h"
#include "training/workload.h"

namespace CLI {
class App;
}

namespace evenstep::train {

/// A delay on one rank's training thread, for tests and demonstrations.
struct Injection {
  int rank = 0;
  int phase = 0;  ///< of evenstep::Phase
  std::int64_t delay_ns = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = INT64_MAX;
};

inline constexpr const char* auto_on_off[] = {"auto", "on", "off"};

struct Options {
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
  std::string wire = "f32";
  double bucket_mb = 0;               ///< 0: measured
  std::int64_t last_chunk = 0;        ///< samples; 0: measured; 1: no larger than the others
  LastChunk largest_last_chunk = {};  ///< what that comes to for a model
  std::string prefetch = "auto";      ///< on, off, or auto: where it is worth it
  int threads = 0;                    ///< 0: this rank's part of the node's cores
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  double clip = 0;  ///< 0: no clipping
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

/// What is one program's own.
struct Program {
  const char* name;
  const char* what;                             ///< it does, in a sentence
  std::function<void(CLI::App&)> add_options;   ///< beside the shared ones
  std::vector<std::string_view> local_options;  ///< that may differ between ranks
};

/// Throws UsageError with the option, the value and what would do, or TextAsked. `defaults` are for
/// what the command line does not say.
Options parse_options(int argc, char** argv, const Program& program, Options defaults = {});

/// --dtype, of the programs whose layers know more than one.
void add_dtype_option(CLI::App& app, std::string& dtype);
kernels::Dtype dtype_of(const std::string& dtype);

/// Checks what depends on the number of ranks. Throws UsageError.
void check_against_world(const Options& options, int ranks);

}  // namespace evenstep::train
