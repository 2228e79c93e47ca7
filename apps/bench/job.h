// What evenstep-bench times: training steps of a real network on made-up images, everything that
// evenstep-train does in a step but reading and logging.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/bench.h"
#include "evenstep/availability.h"
#include "evenstep/optimizer.h"
#include "evenstep/session.h"
#include "kernels/network.h"

namespace evenstep::bench {

/// A rank's network, and what trains it.
struct Work {
  /// `last_chunk`: samples up to which a share's last chunk may be larger than usual. Collective.
  Work(Communicator& communicator, const Options& options, int last_chunk);

  int last_chunk;
  std::unique_ptr<kernels::Network> network;
  std::vector<float> parameters;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::int64_t> size_cost;
  AvailabilityProbe probe;

  /// Forward and backward of a share; `chunk_at_end`: up to which its last chunk may be larger than
  /// usual; `session` takes the laps, where there is one.
  void run_share(std::int64_t samples, int chunk_at_end, std::span<float> gradients,
                 const kernels::GradientReady* ready, Session* session) const;
};

class Job {
 public:
  /// Collective, blocking. Jobs that take turns may share their work.
  Job(Communicator& communicator, const Options& options, Work& work, const std::string& balance,
      const char* overlap);

  /// Runs so many steps; the time between two runs is nobody's. Collective. Returns their seconds.
  double run(int steps);

  const Session& session() const { return *session_; }
  /// Means over the steps since the last call, of this rank.
  struct Means {
    double step = 0;
    double wait = 0;
    double backward = 0;
  };
  Means take_means();

 private:
  void step();
  int last_chunk() const;

  Work& work_;
  bool is_auto_;
  std::unique_ptr<Session> session_;
  kernels::GradientReady ready_;
  Means sums_;
  int counted_ = 0;
};

/// Seconds of two jobs that took turns.
struct Turn {
  double base;
  double other;
  double ratio() const { return other / base; }
};

constexpr int steps_a_turn = 4;  // short, so that what else the machine does meets both alike
constexpr int warm_up_steps = 10;

/// `pairs` pairs of turns. Which is first changes from pair to pair, so that each has as often the
/// other before it. Collective.
std::vector<Turn> take_turns(Job& base, Job& other, int pairs);

/// Calls measure(base, other, pairs) until there are `pairs` in all, each time with warm jobs that
/// `make` made anew, of 0 for base and of 1: where their memory lies matters, too, and which of the
/// two was made first. Collective.
void with_new_jobs(int pairs, const std::function<std::unique_ptr<Job>(int which)>& make,
                   const std::function<void(Job& base, Job& other, int pairs)>& measure);

}  // namespace evenstep::bench
