// What evenstep-bench times: training steps of a real network on made-up images, everything that
// evenstep-train does in a step but reading and logging.
#pragma once

#include <memory>
#include <vector>

#include "bench/bench.h"
#include "evenstep/optimizer.h"
#include "evenstep/session.h"
#include "kernels/network.h"

namespace evenstep::bench {

struct JobOptions {
  const char* balance = "even";
  const char* overlap = "off";
  int last_chunk = 1;  ///< samples up to which a share's last one may be larger than usual
};

class Job {
 public:
  /// Collective, blocking.
  Job(Communicator& communicator, const Options& options, const JobOptions& job);

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
  void run_share(std::int64_t samples);

  std::unique_ptr<kernels::Network> network_;
  int last_chunk_;
  std::vector<float> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Session> session_;
  kernels::GradientReady ready_;
  Means sums_;
  int counted_ = 0;
};

}  // namespace evenstep::bench
