#include "kernels/models.h"

#include <array>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace evenstep::kernels {
namespace {

using enum LayerKind;
using Layers = std::vector<LayerSpec>;

Layers softmax() { return {{linear, "fc"}}; }

Layers mlp() {
  return {
      {linear, "fc1", 512}, {relu, "relu1"}, {linear, "fc2", 512}, {relu, "relu2"}, {linear, "fc3"},
  };
}

// ReLU and max pooling commute, values and gradients both; after the pool it has a quarter of the
// elements to work on.
Layers cnn() {
  return {
      {convolution, "conv1", 32, square(3, 1, 1)},
      {max_pooling, "pool1", 0, square(2, 2)},
      {relu, "relu1"},
      {convolution, "conv2", 64, square(3, 1, 1)},
      {max_pooling, "pool2", 0, square(2, 2)},
      {relu, "relu2"},
      {linear, "fc1", 128},
      {relu, "relu3"},
      {linear, "fc2"},
  };
}

constexpr Model models[] = {
    {"softmax", softmax, 256, 256},
    {"mlp", mlp, 256, 256},
    {"cnn", cnn, 8, 32},
};

constexpr auto names = [] {
  std::array<const char*, std::size(models)> result{};
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = models[i].name;
  return result;
}();

}  // namespace

const Model& find_model(std::string_view name) {
  for (const Model& model : models) {
    if (name == model.name) return model;
  }
  throw std::invalid_argument(
      fmt::format("unknown model '{}'; the models are {}", name, fmt::join(names, ", ")));
}

std::span<const char* const> model_names() { return names; }

}  // namespace evenstep::kernels
