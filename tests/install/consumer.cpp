// Evenstep in your own code: ranks fit y = a x + b together, each on the share of the batch that it
// can compute in time.
#include <evenstep/mpi.h>
#include <evenstep/optimizer.h>
#include <evenstep/session.h>
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <vector>

// Every rank can make every sample: x from -1 to 1, and y = 3 x - 2.
constexpr std::int64_t samples = 257;
double x_of(std::int64_t sample) { return static_cast<double>(sample) / 128 - 1; }

void train(evenstep::Communicator& ranks) {
  std::vector<float> line = {0, 0};  // a and b
  evenstep::SessionOptions options;
  options.global_batch = samples;
  options.gradients = 2;
  evenstep::Session session(ranks, options);
  evenstep::Optimizer optimizer({}, 2);  // SGD with momentum
  session.watch_parameters(line);

  evenstep::StepResult result;
  for (int step = 0; step < 200; ++step) {
    const evenstep::Share share = session.begin_step();
    double a_gradient = 0, b_gradient = 0, loss = 0;
    for (std::int64_t i = share.offset; i < share.offset + share.count; ++i) {
      const double error = line[0] * x_of(i) + line[1] - (3 * x_of(i) - 2);
      a_gradient += 2 * error * x_of(i);  // sums, not means: the session divides
      b_gradient += 2 * error;
      loss += error * error;
    }
    session.gradients()[0] = static_cast<float>(a_gradient);
    session.gradients()[1] = static_cast<float>(b_gradient);
    result = session.end_step({.weight = static_cast<double>(share.count), .loss = loss});
    optimizer.step(line, session.gradients(), 0.05);
  }
  std::printf("rank %d of %d: loss %.1e, a %.9g, b %.9g\n", ranks.rank(), ranks.size(), result.loss,
              static_cast<double>(line[0]), static_cast<double>(line[1]));
}

int main(int argc, char** argv) {
  int thread_level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &thread_level);
  try {
    train(*evenstep::make_mpi_communicator(MPI_COMM_WORLD));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
