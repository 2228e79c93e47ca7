// What is told of a run: the start line, the lines of evaluations, the table at the end, and the
// JSON of --summary (design, section 6; scripts and users depend on its names).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evenstep/session.h"
#include "training/options.h"
#include "training/statistics.h"
#include "training/workload.h"

namespace evenstep::train {

struct Summary {
  nlohmann::ordered_json json;  ///< all but `ranks`
  std::vector<nlohmann::ordered_json> ranks;
  std::vector<std::int64_t> last_wait_ns;  ///< by rank, in the last step's collective
};

/// One rank's side of a finished run.
struct Finished {
  Communicator& communicator;
  const Session& session;
  const Statistics& statistics;
  std::span<const float> parameters;  ///< with running averages
  std::int64_t trained;               ///< of these
  const Options& options;
  const Workload& workload;
  double wall_seconds;
  double final_loss;
  double test_loss;
  double test_accuracy;  ///< below 0: not evaluated
  double collectives_per_step;
  int last_chunk;  ///< of a mean share
  bool prefetches;
  std::int64_t skipped_steps;
};

/// Brings all ranks' means together. Collective, blocking. Throws AgreedError where ranks ended
/// with different parameters.
Summary gather_summary(const Finished& run);

nlohmann::ordered_json to_json(const Summary& summary);

void print_start(const Session& session, const Communicator& communicator, const Options& options,
                 Workload& workload);
/// What measuring has settled, after `step`.
void print_overlap(std::int64_t step, const Session& session, int last_chunk);
void print_evaluation(std::int64_t step, double loss, double test_loss, double accuracy,
                      const Statistics& statistics);
/// `unit`: of losses.
void print_table(const Summary& summary, const std::string& unit);

}  // namespace evenstep::train
