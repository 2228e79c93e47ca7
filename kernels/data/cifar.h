// Reader for the binary versions of CIFAR-10 and CIFAR-100, plain or gzipped.
// Format: www.cs.toronto.edu/~kriz/cifar.html: records without a header; in CIFAR-10 a byte of
// label, in CIFAR-100 a byte of coarse and one of fine label, then 3 x 32 x 32 bytes, red, green,
// blue.
#pragma once

#include <filesystem>

#include "kernels/data/dataset.h"

namespace evenstep::kernels {

/// Whether any of the format's files is in `directory`. Throws DataError where both formats' are.
bool has_cifar(const std::filesystem::path& directory);

/// Reads `directory`/data_batch_{1..5}.bin[.gz] or test_batch.bin[.gz] (CIFAR-10, 10 classes), or
/// train.bin[.gz] or test.bin[.gz] (CIFAR-100, 100 fine classes). Throws DataError.
Dataset read_cifar_train(const std::filesystem::path& directory);
Dataset read_cifar_test(const std::filesystem::path& directory);

}  // namespace evenstep::kernels
