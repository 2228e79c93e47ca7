// Bring your own collective: a conjugate-gradient solver whose dot product carries the balance. The
// rows of a Poisson problem on a grid are shared out anew in each iteration, so that unequal ranks
// finish their part of the product A p together. No message is added.
//
//     conjugate_gradient [SLOW_RANK]      this rank takes five times longer for a row
#include <evenstep/balance.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

constexpr int side = 96;
constexpr int rows = side * side;
using Vector = std::vector<double>;

double row_of_product(const Vector& p, int row) {
  const int x = row % side;
  const int y = row / side;
  double sum = 4 * p[row];
  if (x > 0) sum -= p[row - 1];
  if (x < side - 1) sum -= p[row + 1];
  if (y > 0) sum -= p[row - side];
  if (y < side - 1) sum -= p[row + side];
  return sum;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (int i = 0; i < rows; ++i) sum += a[i] * b[i];
  return sum;
}

// Every rank's rows of `values`, to all ranks.
void exchange_rows(Vector& values, const std::vector<int>& counts) {
  std::vector<int> starts(counts.size(), 0);
  for (std::size_t r = 1; r < counts.size(); ++r) starts[r] = starts[r - 1] + counts[r - 1];
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data(), counts.data(), starts.data(),
                 MPI_DOUBLE, MPI_COMM_WORLD);
}

void solve(int rank, int ranks, int slow_rank) {
  evenstep::BalanceOptions options;
  options.global_batch = rows;
  evenstep::Balance balance(rank, ranks, options);
  Vector buffer(1 + balance.tail_size());  // the dot product, and behind it the tail
  const std::span<double> tail(buffer.data() + 1, balance.tail_size());

  Vector x(rows, 0), r(rows, 1), p = r, q(rows, 0);
  std::vector<int> counts(static_cast<std::size_t>(ranks));
  double squared = dot(r, r);
  int iterations = 0;
  for (; squared > 1e-16 * rows && iterations < 2000; ++iterations) {
    const evenstep::Share share = balance.begin_step();
    const int first = static_cast<int>(share.offset);
    const int last = static_cast<int>(share.offset + share.count);
    double partial = 0;
    for (int i = first; i < last; ++i) {
      // Stands for a row that is dear to compute.
      for (int work = rank == slow_rank ? 500 : 100; work > 0; --work)
        q[i] = row_of_product(p, i) + 1e-300 * q[i];
      partial += p[i] * q[i];
    }
    buffer[0] = partial;
    balance.write(tail, {.weight = static_cast<double>(share.count)});
    MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
    balance.read(tail);

    const double alpha = squared / buffer[0];
    for (int i = first; i < last; ++i) r[i] -= alpha * q[i];
    for (int i = 0; i < rows; ++i) x[i] += alpha * p[i];
    for (int i = 0; i < ranks; ++i) counts[i] = static_cast<int>(balance.reports()[i].samples);
    balance.pause();  // what follows waits for others
    exchange_rows(r, counts);
    balance.resume();
    const double before = squared;
    squared = dot(r, r);
    for (int i = 0; i < rows; ++i) p[i] = r[i] + squared / before * p[i];
  }
  double error = 0;
  for (int i = 0; i < rows; ++i) error = std::max(error, std::abs(row_of_product(x, i) - 1));
  std::printf(
      "rank %d of %d: %d iterations, error %.1e, sum %.17g, share %lld of %d, %d re-sizes\n", rank,
      ranks, iterations, error, dot(x, x), static_cast<long long>(balance.partition()[rank]), rows,
      balance.resizes());
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    solve(rank, ranks, argc > 1 ? std::atoi(argv[1]) : -1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
