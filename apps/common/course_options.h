// What evenstep-sim and evenstep-replay are told in the same words: the trace, and the job on it.
#pragma once

#include <memory>
#include <string>

#include "common/checks.h"
#include "lb/simulator.h"

namespace evenstep {

inline constexpr std::int64_t most_ranks = 1'000'000;

struct CourseOptions {
  std::string trace;
  std::string generate;
  std::int64_t ranks = 0;         ///< 0: as the trace has
  std::int64_t global_batch = 0;  ///< 0: the source's usual one
  std::int64_t granule = 1;
  std::int64_t steps = 0;  ///< 0: the source's usual number
  double noise = -1;       ///< below 0: the source's own
  std::uint64_t seed = 1;
  std::string predictor = "narx";
  double cold = 0;
  int lag = 0;
  std::string summary;
};

void add_course_options(CLI::App& app, CourseOptions& options);

/// Where costs come from, and what is usual there.
struct Source {
  std::string name;
  std::unique_ptr<lb::Trace> trace;
  lb::NoiseModel noise;
  std::int64_t steps = 0;
  std::int64_t batch = 0;  ///< 0: 128 a rank
};

/// Opens --trace or --generate. Throws UsageError, or Error for a malformed file.
Source open_source(const CourseOptions& options);

/// Fills in what was not given. Throws UsageError.
lb::SimulationOptions settle(const CourseOptions& options, const Source& source);

/// Throws UsageError where the global batch is below the granule.
void check_granule(std::int64_t global_batch, std::int64_t granule);

}  // namespace evenstep
