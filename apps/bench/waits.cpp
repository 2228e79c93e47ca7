#include <fmt/format.h>

#include "bench/job.h"
#include "evenstep/mpi.h"

namespace evenstep::bench {
namespace {

struct Turns {
  std::string wait;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Work> work;
  std::unique_ptr<Job> job;
};

Turns make_turns(const Communicator& communicator, const Options& options, const char* wait) {
  const MpiOptions mpi = {.wait = wait, .threads = threads_of(communicator)};
  Turns turns{wait, make_mpi_communicator(MPI_COMM_WORLD, mpi), {}, {}};
  turns.work = std::make_unique<Work>(*turns.communicator, options, 1);
  turns.job = std::make_unique<Job>(*turns.communicator, options, *turns.work, "off");
  return turns;
}

}  // namespace

Json measure_waits(Communicator& communicator, const Options& options) {
  std::vector<Turns> all;
  for (const char* wait : {"sleep", "yield", "spin"})
    all.push_back(make_turns(communicator, options, wait));
  std::vector<Job*> jobs;
  for (Turns& turns : all) {
    turns.job->settle();
    jobs.push_back(turns.job.get());
  }
  const int steps = steps_in(communicator, options.block_seconds, *all[0].job);
  const auto seconds = take_rounds(jobs, steps, options.pairs);
  Json results = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double> over_first;
    for (std::size_t round = 0; round < seconds[i].size(); ++round)
      over_first.push_back(seconds[0][round] / seconds[i][round]);
    const double speed = median(over_first);
    results.push_back({{"wait", all[i].wait}, {"speed", speed}, {"seconds", seconds[i]}});
    if (communicator.rank() == 0)
      fmt::print("wait {}: {:.3f} times as fast as {}, {:.2f} ms a step\n", all[i].wait, speed,
                 all[0].wait, 1e3 * median(seconds[i]) / steps);
  }
  return {{"steps", steps}, {"waits", results}};
}

}  // namespace evenstep::bench
