#include "kernels/data/images.h"

#include <fmt/format.h>

#include "kernels/data/cifar.h"
#include "kernels/data/idx.h"

namespace evenstep::kernels {
namespace {

bool is_cifar(const std::filesystem::path& directory) {
  const bool cifar = has_cifar(directory);
  if (cifar && has_idx(directory))
    throw DataError(
        fmt::format("{} has files of CIFAR and of IDX; give each a directory", directory.string()));
  return cifar;
}

}  // namespace

Dataset read_training_images(const std::filesystem::path& directory) {
  return is_cifar(directory) ? read_cifar_train(directory) : read_idx_train(directory);
}

Dataset read_test_images(const std::filesystem::path& directory) {
  return is_cifar(directory) ? read_cifar_test(directory) : read_idx_test(directory);
}

}  // namespace evenstep::kernels
