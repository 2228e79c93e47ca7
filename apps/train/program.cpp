#include "train/program.h"

#include <cstdlib>

#include "common/mpi_program.h"

namespace evenstep::train {
namespace {

MpiOptions mpi_options(Options& options) {
  const char* omp_threads = std::getenv("OMP_NUM_THREADS");
  if (options.threads == 0 && omp_threads != nullptr) options.threads = std::atoi(omp_threads);
  return {options.wait, options.threads};
}

}  // namespace

int run_training(int argc, char** argv, const Program& program, const MakeWorkload& make_workload,
                 const Options& defaults) {
  Options options;
  return run_mpi_program(
      argc, argv,
      {.parse = [&](int count,
                    char** words) { options = parse_options(count, words, program, defaults); },
       .mpi_options = [&] { return mpi_options(options); },
       .run =
           [&](Communicator& communicator) {
             Trainer(communicator, options, make_workload).run();
           }});
}

}  // namespace evenstep::train
