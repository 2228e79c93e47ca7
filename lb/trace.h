// What ranks truly cost, step by step: read from a file by the programs, or
// generated here for the kinds of machines that the sizers are compared on.
// Random, so not for replicated use: simulation alone.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "lb/cost.h"

namespace evenstep::lb {

/// One rank in one step.
struct RankState {
  Cost cost;
  double cpu_seen = -1;     ///< cores seen free just before the step; below 0: not seen
  double memory_seen = -1;  ///< MiB, likewise
};

/// Multiplies a rank's time: log-normal with mean 1, and now and then a spike.
struct NoiseModel {
  double sigma = 0.03;
  double spike_probability = 0;
  double spike_factor = 5;
};

class Trace {
 public:
  virtual ~Trace() = default;
  virtual int ranks() const = 0;
  /// The next step's states, one a rank.
  virtual void next(std::span<RankState> states) = 0;
};

struct TraceKind {
  std::string_view name;
  std::string_view what;
  NoiseModel noise;
};

/// The kinds that make_trace knows.
std::span<const TraceKind> trace_kinds();

/// Throws std::invalid_argument for an unknown kind, naming the known ones. The
/// same seed gives the same trace.
std::unique_ptr<Trace> make_trace(std::string_view kind, int ranks, std::uint64_t seed);

}  // namespace evenstep::lb
