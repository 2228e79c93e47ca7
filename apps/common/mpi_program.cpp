#include "common/mpi_program.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "common/command_line.h"

namespace evenstep {
namespace {

void print_error(const std::exception& error) { fmt::print(stderr, "error: {}\n", error.what()); }

// The command line as far as it can be read before ranks can talk: what is wrong with it must reach
// all of them.
struct CommandLine {
  std::string text_asked;  // of --help or --version
  std::exception_ptr wrong;

  CommandLine(const MpiProgram& program, int argc, char** argv) {
    try {
      program.parse(argc, argv);
    } catch (const TextAsked& asked) {
      text_asked = asked.text;
    } catch (const std::exception&) {
      wrong = std::current_exception();
    }
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

int run_together(const MpiProgram& program, Communicator& communicator,
                 const CommandLine& command_line) {
  try {
    agree_on_errors(communicator, [&] {
      if (command_line.wrong) std::rethrow_exception(command_line.wrong);
    });
    if (!answer(communicator, command_line.text_asked)) program.run(communicator);
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

int leave_together(const CommandLine& command_line, const Error& error) {
  const bool asked = !command_line.text_asked.empty();
  if (launcher_rank() == 0 && asked) fmt::print("{}", command_line.text_asked);
  if (launcher_rank() == 0 && !asked) print_error(error);
  return asked ? 0 : error.exit_code();
}

int run_initialized(const MpiProgram& program, const CommandLine& command_line) {
  try {
    const auto communicator = make_mpi_communicator(MPI_COMM_WORLD, program.mpi_options());
    return run_together(program, *communicator, command_line);
  } catch (const UsageError& error) {  // of all processes alike, which are alone
    return leave_together(command_line, error);
  } catch (const AgreedError& error) {
    return leave_together(command_line, error);
  } catch (const std::exception& error) {  // of this rank alone
    print_error(error);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
}

}  // namespace

int run_mpi_program(int argc, char** argv, const MpiProgram& program) {
  const CommandLine command_line(program, argc, argv);
  const int wanted = program.wants_threads() ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
  int thread_level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, wanted, &thread_level);
  const int exit_code = run_initialized(program, command_line);
  MPI_Finalize();
  return exit_code;
}

}  // namespace evenstep
