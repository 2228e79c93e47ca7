#include "training/program.h"

#include <algorithm>
#include <cstdlib>

#include "common/mpi_program.h"
#include "runtime/probe.h"

namespace evenstep::train {
namespace {

MpiOptions mpi_options(Options& options) {
  const char* omp_threads = std::getenv("OMP_NUM_THREADS");
  if (options.threads == 0 && omp_threads != nullptr) options.threads = std::atoi(omp_threads);
  return {.wait = options.wait, .threads = options.threads};
}

// What MPI pays for threads is wasted where a rank has no core for one.
bool wants_threads(const Options& options) {
  const auto cores = static_cast<int>(allowed_cores().size());
  return options.overlap == "thread" ||
         (options.overlap == "auto" && cores > std::max(1, options.threads));
}

}  // namespace

int run_training(int argc, char** argv, const Program& program, const MakeWorkload& make_workload,
                 const Options& defaults) {
  Options options;
  return run_mpi_program(
      argc, argv,
      {.parse = [&](int count,
                    char** words) { options = parse_options(count, words, program, defaults); },
       .wants_threads = [&] { return wants_threads(options); },
       .mpi_options = [&] { return mpi_options(options); },
       .run =
           [&](Communicator& communicator) {
             Trainer(communicator, options, make_workload).run();
           }});
}

}  // namespace evenstep::train
