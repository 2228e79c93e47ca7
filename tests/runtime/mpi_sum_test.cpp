// Sums over MPI, run by mpirun on several ranks: cut into pieces, of both types, blocking and not,
// in every way of waiting, with and without a thread.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "evenstep/mpi.h"
#include "runtime/elementwise.h"

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

// Small whole numbers: exact in bf16, too.
float value(int rank, std::size_t i) { return static_cast<float>(rank + static_cast<int>(i % 5)); }
float total(int ranks, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

void check_sums(Communicator& ranks, bool blocking, bool thread) {
  std::vector<float> values(count);
  std::vector<Bf16> small(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = value(ranks.rank(), i);
    small[i] = to_bf16(values[i]);
  }
  const std::int64_t calls = ranks.sum_calls();
  if (blocking) {
    ranks.sum(std::span(values));
    ranks.sum(std::span(small));
  } else {
    ranks.start_sum(std::span(values));
    if (thread) ranks.progress_in_background();
    ranks.progress();
    ranks.start_sum(std::span(small));
    ranks.wait();
  }
  check(ranks.progress(), "all sums have ended", ranks);
  check(ranks.sum_calls() - calls == 2 * pieces, "each sum is cut into its pieces", ranks);
  for (std::size_t i = 0; i < count; ++i) {
    check(values[i] == total(ranks.size(), i), "the sum of floats is right", ranks);
    check(to_float(small[i]) == total(ranks.size(), i), "the sum of bf16 is right", ranks);
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
