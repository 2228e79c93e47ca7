// evenstep-train: trains a network on all ranks of an MPI job, balanced.
#include "train/image_workload.h"
#include "train/program.h"

int main(int argc, char** argv) {
  using namespace evenstep::train;
  ImageOptions images;
  const Program program{.name = "evenstep-train",
                        .what = "Trains a network on all ranks of an MPI job, balanced.",
                        .add_options = [&](CLI::App& app) { add_image_options(app, images); },
                        .local_options = {"--data"}};  // the data itself is compared
  return run_training(argc, argv, program, [&](Options& options) {
    return make_image_workload(images, options.seed, options.evaluate, options.largest_last_chunk);
  });
}
