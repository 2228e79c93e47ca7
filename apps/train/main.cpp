// evenstep-train: trains a network on all ranks of an MPI job, balanced.
#include <cstdlib>

#include "common/mpi_program.h"
#include "train/trainer.h"

namespace evenstep::train {
namespace {

MpiOptions mpi_options(Options& options) {
  const char* omp_threads = std::getenv("OMP_NUM_THREADS");
  if (options.threads == 0 && omp_threads != nullptr) options.threads = std::atoi(omp_threads);
  return {options.wait, options.threads};
}

}  // namespace
}  // namespace evenstep::train

int main(int argc, char** argv) {
  evenstep::train::Options options;
  return evenstep::run_mpi_program(
      argc, argv,
      {.parse = [&](int count,
                    char** words) { options = evenstep::train::parse_options(count, words); },
       .mpi_options = [&] { return evenstep::train::mpi_options(options); },
       .run =
           [&](evenstep::Communicator& communicator) {
             evenstep::train::Trainer(communicator, options).run();
           }});
}
