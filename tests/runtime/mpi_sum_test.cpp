// Sums over MPI, run by mpirun on several ranks: cut into pieces, of all types, blocking and not,
// in every way of waiting, with and without a thread.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "evenstep/mpi.h"
#include "runtime/half_precision.h"

using namespace evenstep;

namespace {

constexpr std::size_t count = 4567;
constexpr std::size_t piece = 1000;
constexpr std::int64_t pieces = 5;

void check(bool good, const char* what, const Communicator& ranks) {
  if (good) return;
  fmt::print(stderr, "rank {}: {}\n", ranks.rank(), what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Small whole numbers: exact in 16 bits, too.
float value(int rank, std::size_t i) { return static_cast<float>(rank + static_cast<int>(i % 5)); }
float total(int ranks, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

void check_sums(Communicator& ranks, bool blocking, bool thread) {
  std::vector<float> values(count);
  std::vector<Bf16> bf16(count);
  std::vector<F16> f16(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = value(ranks.rank(), i);
    bf16[i] = round_to<Bf16>(values[i]);
    f16[i] = round_to<F16>(values[i]);
  }
  const std::int64_t calls = ranks.sum_calls();
  if (blocking) {
    ranks.sum(std::span(values));
    ranks.sum(std::span(bf16));
    ranks.sum(std::span(f16));
  } else {
    ranks.start_sum(std::span(values));
    if (thread) ranks.progress_in_background();
    ranks.progress();
    ranks.start_sum(std::span(bf16));
    ranks.start_sum(std::span(f16));
    ranks.wait();
  }
  check(ranks.progress(), "all sums have ended", ranks);
  check(ranks.sum_calls() - calls == 3 * pieces, "each sum is cut into its pieces", ranks);
  for (std::size_t i = 0; i < count; ++i) {
    check(values[i] == total(ranks.size(), i), "the sum of floats is right", ranks);
    check(to_float(bf16[i]) == total(ranks.size(), i), "the sum of bf16 is right", ranks);
    check(to_float(f16[i]) == total(ranks.size(), i), "the sum of f16 is right", ranks);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  for (const char* wait : {"spin", "yield", "sleep", "auto"}) {
    const auto ranks =
        make_mpi_communicator(MPI_COMM_WORLD, {.wait = wait, .threads = 1, .largest_count = piece});
    const bool has_thread = level == MPI_THREAD_MULTIPLE;
    check((ranks->progress_thread() != ProgressThread::no) == has_thread,
          "a thread is possible where MPI says so", *ranks);
    for (int round = 0; round < 20; ++round) {
      check_sums(*ranks, true, false);
      check_sums(*ranks, false, false);
      check_sums(*ranks, false, true);
    }
  }
  MPI_Finalize();
  return 0;
}
