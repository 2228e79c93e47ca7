// Reader for the IDX format of MNIST and Fashion-MNIST, plain or gzipped.
// Format: yann.lecun.com/exdb/mnist: big-endian magic 0x00000803 (images) or 0x00000801 (labels),
// the dimensions as 32-bit numbers, then bytes.
#pragma once

#include <filesystem>

#include "kernels/data/dataset.h"

namespace evenstep::kernels {

/// Whether any of the format's files is in `directory`.
bool has_idx(const std::filesystem::path& directory);

/// Reads `directory`/{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]; the plain file where both
/// are present. Throws DataError.
Dataset read_idx_train(const std::filesystem::path& directory);
Dataset read_idx_test(const std::filesystem::path& directory);

}  // namespace evenstep::kernels
