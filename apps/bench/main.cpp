// evenstep-bench: what the collective engine costs on this machine.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "bench/bench.h"
#include "common/checks.h"
#include "common/command_line.h"
#include "common/mpi_program.h"
#include "common/output_file.h"
#include "evenstep/version.h"

namespace {

std::atomic<std::int64_t> allocated = 0;

void* allocate(std::size_t size) {
  allocated.fetch_add(1, std::memory_order_relaxed);
  if (void* block = std::malloc(size)) return block;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace evenstep::bench {

std::int64_t allocations() { return allocated.load(std::memory_order_relaxed); }

namespace {

constexpr const char* parts[] = {"all", "allreduce", "tail", "balance"};
constexpr const char* waits[] = {"auto", "spin", "yield", "sleep"};

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Measures all-reduces, the tail and the cost of balancing on the ranks of an MPI job.",
      "evenstep-bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--what", options.what, "to measure")->check(one_of(std::span(parts)));
  app.add_option("--wait", options.wait, "how a rank waits for the others")
      ->check(one_of(std::span(waits)));
  app.add_option("--most-mb", options.most_mb, "largest all-reduce")->check(real(0.001, 2000));
  app.add_option("--gradients", options.gradients, "of a step, in elements")
      ->check(whole(1, 1'000'000'000));
  app.add_option("--step-ms", options.step_ms, "that a rank computes in a step")
      ->check(real(0.01, 10'000));
  app.add_option("--pairs", options.pairs, "of blocks of steps with balancing on and off")
      ->check(whole(1, 10'000));
  app.add_option("--summary", options.summary, "JSON of the results");
  parse_command_line(app, argc, argv);
  return options;
}

void run(Communicator& communicator, const Options& options) {
  OutputFile file;
  agree_on_errors(communicator, [&] {
    if (communicator.rank() == 0) file = OutputFile(options.summary, OutputFile::Kind::whole);
  });
  Json summary = {{"version", version()},
                  {"ranks", communicator.size()},
                  {"wait", name(wait_of(communicator))}};
  const auto wanted = [&](const char* part) {
    return options.what == "all" || options.what == part;
  };
  if (wanted("allreduce")) summary["allreduce"] = measure_all_reduce(communicator, options);
  if (wanted("tail")) summary["tail"] = measure_tail(communicator, options);
  if (wanted("balance")) summary["balance"] = measure_balancing(communicator, options);
  if (communicator.rank() != 0) return;
  file.write(summary.dump(2) + "\n");
  file.commit();
}

}  // namespace
}  // namespace evenstep::bench

int main(int argc, char** argv) {
  return evenstep::run_mpi_program(argc, argv, evenstep::bench::parse_options,
                                   evenstep::bench::run);
}
