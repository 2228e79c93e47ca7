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
  Work(Communicator& communicator, const Options& options, std::int64_t last_chunk);

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

/// The parts of an even share that its last chunk may be: 0, no more than usual, and larger ones.
std::vector<double> last_parts(const Work& work, const Options& options);

/// How sums run while backward does.
struct Overlapping {
  std::string overlap = "off";
  std::vector<double> last_parts = {0};  ///< of a share, for its last chunk, by backward_way
  double bucket_mb = 0;                  ///< least size of a bucket; 0: measured
};

class Job {
 public:
  /// Collective, blocking. Jobs that take turns may share their work.
  Job(Communicator& communicator, const Options& options, Work& work, const std::string& balance,
      const Overlapping& overlapping = {});

  /// Runs so many steps; the time between two runs is nobody's. Collective. Returns their seconds.
  double run(int steps);

  /// Runs until all is warm and overlap is settled.
  void settle();

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

  Work& work_;
  std::vector<double> last_parts_;
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

/// Steps of the job that take so long; the same on all ranks. Collective.
int steps_in(Communicator& communicator, double seconds, Job& job);

/// `pairs` pairs of turns. Which is first changes from pair to pair, so that each has as often the
/// other before it. Collective.
std::vector<Turn> take_turns(Job& base, Job& other, int pairs);

/// Rounds in which each job takes a turn of `steps` steps. The order goes up and down the list,
/// from another start each time: each is first as often, and after either neighbour. Returns
/// seconds, by job and round. Collective.
std::vector<std::vector<double>> take_rounds(std::span<Job* const> jobs, int steps, int rounds);

/// Calls measure(base, other, pairs) until there are `pairs` in all, each time with warm jobs that
/// `make` made anew, of 0 for base and of 1: where their memory lies matters, too, and which of the
/// two was made first. Collective.
void with_new_jobs(int pairs, const std::function<std::unique_ptr<Job>(int which)>& make,
                   const std::function<void(Job& base, Job& other, int pairs)>& measure);

}  // namespace evenstep::bench
