// evenstep-train: trains a network on all ranks of an MPI job, balanced.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "train/trainer.h"

namespace evenstep::train {
namespace {

void print_error(const std::exception& error) { fmt::print(stderr, "error: {}\n", error.what()); }

// The command line as far as it can be read before ranks can talk: what is wrong with it must reach
// all of them.
struct CommandLine {
  Options options;
  std::string text_asked;  // of --help or --version
  std::exception_ptr wrong;

  CommandLine(int argc, char** argv) {
    try {
      options = parse_options(argc, argv);
    } catch (const TextAsked& asked) {
      text_asked = asked.text;
    } catch (const UsageError&) {
      wrong = std::current_exception();
    }
    const char* omp_threads = std::getenv("OMP_NUM_THREADS");
    if (options.threads == 0 && omp_threads != nullptr) options.threads = std::atoi(omp_threads);
  }
};

// True if all ranks asked for a text, and rank 0 printed it.
bool answer(Communicator& communicator, const std::string& text) {
  int asked = 0;
  for (const std::string& theirs : communicator.gather(text)) asked += theirs.empty() ? 0 : 1;
  if (asked != 0 && asked != communicator.size())
    throw AgreedError(
        fmt::format(
            "{} of {} ranks have --help or --version; start all ranks with the same options", asked,
            communicator.size()),
        2);
  if (communicator.rank() == 0) fmt::print("{}", text);
  return asked != 0;
}

int train(Communicator& communicator, const CommandLine& command_line) {
  try {
    agree_on_errors(communicator, [&] {
      if (command_line.wrong) std::rethrow_exception(command_line.wrong);
    });
    if (answer(communicator, command_line.text_asked)) return 0;
    Trainer(communicator, command_line.options).run();
    return 0;
  } catch (const AgreedError& error) {
    if (communicator.rank() == 0) print_error(error);
    return error.exit_code();
  } catch (const std::exception& error) {  // of this rank alone
    print_error(error);
    const auto* known = dynamic_cast<const Error*>(&error);
    const int exit_code = known != nullptr ? known->exit_code() : 1;
    communicator.abort(exit_code);
    return exit_code;
  }
}

int run(int argc, char** argv) {
  const CommandLine command_line(argc, argv);
  try {
    const auto communicator = make_mpi_communicator(
        MPI_COMM_WORLD, {command_line.options.wait, command_line.options.threads});
    return train(*communicator, command_line);
  } catch (const Error& error) {  // of all ranks alike, before they could talk
    const bool asked = !command_line.text_asked.empty();
    if (launcher_rank() == 0 && asked) fmt::print("{}", command_line.text_asked);
    if (launcher_rank() == 0 && !asked) print_error(error);
    return asked ? 0 : error.exit_code();
  }
}

}  // namespace
}  // namespace evenstep::train

int main(int argc, char** argv) {
  int thread_level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &thread_level);
  const int exit_code = evenstep::train::run(argc, argv);
  MPI_Finalize();
  return exit_code;
}
