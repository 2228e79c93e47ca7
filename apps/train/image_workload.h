// Networks on labelled images.
#pragma once

#include <memory>
#include <string>

#include "training/workload.h"

namespace CLI {
class App;
}

namespace evenstep::train {

struct ImageOptions {
  std::string model = "cnn";
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string dtype = "f32";
  std::string augment = "auto";  ///< on, off, or auto: where it is usual
  double label_smoothing = 0;
};

void add_image_options(CLI::App& app, ImageOptions& options);

/// Reads the data; the test images only where they are wanted. `seed` is of the order of samples;
/// a share may end in a larger chunk, as `last_chunk` says.
/// Throws kernels::DataError, or std::invalid_argument where model and data do not fit.
std::unique_ptr<Workload> make_image_workload(const ImageOptions& options, std::uint64_t seed,
                                              bool with_test, LastChunk last_chunk = {});

}  // namespace evenstep::train
