// evenstep-bench: what the collective engine costs on this machine.
#include <fmt/format.h>

#include <dlfcn.h>
#include <dnnl.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <new>

#include "bench/bench.h"
#include "bench/calls.h"
#include "common/checks.h"
#include "common/command_line.h"
#include "common/mpi_program.h"
#include "common/output_file.h"
#include "evenstep/version.h"
#include "kernels/network.h"
#include "lb/sizer.h"

namespace {

// oneDNN keeps the arguments of a primitive on the heap while it runs: that is not ours to count.
bool is_onednn(const void* caller) {
  static const void* const library = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&dnnl_engine_create), &info);
    return static_cast<const void*>(info.dli_fbase);
  }();
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_fbase == library;
}

void* allocate(std::size_t size, const void* caller) {
  using evenstep::bench::allocations;
  if (allocations.counting) ++(is_onednn(caller) ? allocations.in_onednn : allocations.own);
  if (void* block = std::malloc(size)) return block;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return allocate(size, __builtin_return_address(0)); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace evenstep::bench {

thread_local Allocations allocations;

namespace {

constexpr const char* parts[] = {"all",     "allreduce",     "tail",   "overlap",
                                 "balance", "communication", "sizers", "waits"};
constexpr const char* waits[] = {"auto", "spin", "yield", "sleep"};
constexpr const char* overlaps[] = {"off", "tests", "thread", "auto"};

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Measures all-reduces, the tail, overlap and the cost of balancing on the ranks of an MPI "
      "job, and sizers in turn.",
      "evenstep-bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--what", options.what, "to measure; all is all but the last three")
      ->check(one_of(std::span(parts)));
  app.add_option("--wait", options.wait, "how a rank waits for the others")
      ->check(one_of(std::span(waits)));
  app.add_option("--most-mb", options.most_mb, "largest all-reduce")->check(real(0.001, 2000));
  app.add_option("--gradients", options.gradients, "of a step, in elements")
      ->check(whole(1, 1'000'000'000));
  app.add_option("--model", options.model, "network whose steps are timed")
      ->check(one_of(kernels::model_names()));
  app.add_option("--batch", options.batch, "samples a rank")->check(whole(1, 65536));
  app.add_option("--bucket-mb", options.bucket_mb,
                 "with --what overlap: least sizes of a bucket, with commas")
      ->delimiter(',')
      ->check(real(0.001, 1024));
  app.add_option("--pairs", options.pairs, "of blocks of steps, taken in turn")
      ->check(whole(1, 10'000));
  std::vector<std::string> others = {"even"};
  app.add_option("--balance", others, "with --what sizers: those to compare with off, with commas")
      ->delimiter(',')
      ->check(one_of(lb::sizer_names()));
  app.add_option("--block-seconds", options.block_seconds,
                 "with the last three: of a turn of the first; the others run as many steps")
      ->check(real(0.01, 600));
  app.add_option("--overlap", options.overlap, "with --what sizers: of all that take turns")
      ->check(one_of(std::span(overlaps)));
  app.add_option("--summary", options.summary, "JSON of the results");
  parse_command_line(app, argc, argv);
  for (const std::string& balance : others)
    if (!is_one_of(options.balances, balance)) options.balances.push_back(balance);
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
  if (wanted("overlap")) summary["overlap"] = measure_overlap(communicator, options);
  if (wanted("balance")) summary["balance"] = measure_balancing(communicator, options);
  if (options.what == "communication")
    summary["communication"] = measure_communication(communicator, options);
  if (options.what == "waits") summary["waits"] = measure_waits(communicator, options);
  if (options.what == "sizers") summary["sizers"] = measure_sizers(communicator, options);
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
