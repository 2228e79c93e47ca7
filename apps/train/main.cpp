// evenstep-train: trains a network on all ranks of an MPI job, balanced.
#include "train/image_workload.h"
#include "training/program.h"

int main(int argc, char** argv) {
  namespace train = evenstep::train;
  train::ImageOptions images;
  const train::Program program{
      .name = "evenstep-train",
      .what = "Trains a network on all ranks of an MPI job, balanced.",
      .add_options = [&](CLI::App& app) { train::add_image_options(app, images); },
      .local_options = {"--data"}};  // the data itself is compared
  return train::run_training(argc, argv, program, [&](train::Options& options) {
    return train::make_image_workload(images, options.seed, options.evaluate,
                                      options.largest_last_chunk);
  });
}
