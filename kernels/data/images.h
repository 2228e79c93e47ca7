// Labelled images in whichever format a directory has them.
#pragma once

#include <filesystem>

#include "kernels/data/dataset.h"

namespace evenstep::kernels {

/// CIFAR where its files are there, else IDX. Throws DataError, also where both are.
Dataset read_training_images(const std::filesystem::path& directory);
Dataset read_test_images(const std::filesystem::path& directory);

}  // namespace evenstep::kernels
