#include <fmt/format.h>

#include <numeric>

#include "bench/job.h"
#include "evenstep/mpi.h"

namespace evenstep::bench {
namespace {

void meet(Communicator& communicator) {
  float nothing = 0;
  communicator.sum({&nothing, 1});
}

// By turn, of the rank that took longest.
std::vector<double> longest(Communicator& communicator, const std::vector<double>& mine) {
  std::vector<double> longest(mine.size());
  for (const std::string& text : communicator.gather(Json(mine).dump())) {
    const Json theirs = Json::parse(text);
    for (std::size_t turn = 0; turn < longest.size(); ++turn)
      longest[turn] = std::max(longest[turn], double(theirs[turn]));
  }
  return longest;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

// Together they train as evenstep-train does unless told otherwise; alone with a network like that.
Json measure_communication(Communicator& communicator, const Options& options) {
  const auto self =
      make_mpi_communicator(MPI_COMM_SELF, {.wait = "spin", .threads = threads_of(communicator)});
  Work shared(communicator, options, 2 * options.batch);
  Work own(*self, options, 2 * options.batch);
  Job together(communicator, options, shared, "even", {"auto", last_parts(shared, options)});
  Job alone(*self, options, own, "off");
  together.settle();
  alone.settle();
  const int steps = steps_in(communicator, options.block_seconds, together);
  std::vector<double> together_seconds;
  std::vector<double> alone_seconds;
  for (int pair = 0; pair < options.pairs; ++pair) {
    together_seconds.push_back(together.run(steps));
    alone_seconds.push_back(alone.run(steps));
    meet(communicator);
  }
  const double share =
      1 - sum(longest(communicator, alone_seconds)) / sum(longest(communicator, together_seconds));
  if (communicator.rank() == 0)
    fmt::print("communication is {:.1f} % of a step of {} ({} pairs of {} steps, {} ranks)\n",
               100 * share, options.model, options.pairs, steps, communicator.size());
  return {{"model", options.model},
          {"steps", steps},
          {"together_seconds", together_seconds},
          {"share", share},
          {"overlap", name(together.session().overlap())},
          {"partition", together.session().partition()}};
}

}  // namespace evenstep::bench
