// The main function of a program that runs on all ranks: its errors are printed once, and end all
// ranks.
#pragma once

#include <functional>

#include "evenstep/mpi.h"

namespace evenstep {

struct MpiProgram {
  /// Reads the command line. May throw TextAsked or UsageError. Local, before ranks can talk.
  std::function<void(int argc, char** argv)> parse;
  /// After parse: whether a thread beside the main one may call MPI, if the library lets it. Local.
  std::function<bool()> wants_threads = [] { return false; };
  /// After parse.
  std::function<MpiOptions()> mpi_options;
  /// Collective. Throws AgreedError on all ranks alike, or anything else on one: that ends the job.
  std::function<void(Communicator&)> run;
};

/// Returns the process's exit code. Calls MPI_Init_thread and MPI_Finalize.
int run_mpi_program(int argc, char** argv, const MpiProgram& program);

/// The same for a program of one thread a rank whose options say in `wait` how a rank waits.
template <typename Options>
int run_mpi_program(int argc, char** argv, Options (*parse)(int, char**),
                    void (*run)(Communicator&, const Options&)) {
  Options options;
  return run_mpi_program(argc, argv,
                         {.parse = [&](int count, char** words) { options = parse(count, words); },
                          .mpi_options = [&] { return MpiOptions{options.wait, 1}; },
                          .run = [&](Communicator& communicator) { run(communicator, options); }});
}

}  // namespace evenstep
