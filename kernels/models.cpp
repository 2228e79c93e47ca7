#include "kernels/models.h"

#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

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

// Krizhevsky's network for CIFAR-10 (cuda-convnet, layers-18pct) in the form that Caffe publishes
// as cifar10_full: pools whose last window hangs over, norms over neighbouring pixels.
Layers cifarnet() {
  const Window window = square(5, 1, 2);
  const Window pool{3, 3, 2, 0, 0, true};
  const auto norm = [](const char* name) {
    return LayerSpec{.kind = local_response_norm,
                     .name = name,
                     .window = square(3),
                     .alpha = 5e-5,
                     .beta = 0.75,
                     .across_channels = false};
  };
  const auto conv = [&](const char* name, int outputs, double deviation) {
    return LayerSpec{.kind = convolution,
                     .name = name,
                     .outputs = outputs,
                     .window = window,
                     .start = Start::normal,
                     .deviation = deviation};
  };
  return {
      conv("conv1", 32, 1e-4),
      {max_pooling, "pool1", 0, pool},
      {relu, "relu1"},
      norm("norm1"),
      conv("conv2", 32, 0.01),
      {relu, "relu2"},
      {average_pooling, "pool2", 0, pool},
      norm("norm2"),
      conv("conv3", 64, 0.01),
      {relu, "relu3"},
      {average_pooling, "pool3", 0, pool},
      {.kind = linear, .name = "fc", .start = Start::normal, .deviation = 0.01},
  };
}

/// A list that grows by convolutions with batch norm behind them.
struct NormalisedList {
  Layers layers;
  Start start;
  double deviation;
  double epsilon;

  /// Returns the name of the last layer added: the batch norm, or the ReLU.
  std::string conv(const std::string& name, int outputs, Window window, bool with_relu = true,
                   std::vector<std::string> from = {}) {
    layers.push_back({.kind = convolution,
                      .name = name,
                      .outputs = outputs,
                      .window = window,
                      .bias = false,
                      .from = std::move(from),
                      .start = start,
                      .deviation = deviation});
    layers.push_back({.kind = batch_norm, .name = name + ".norm", .epsilon = epsilon});
    if (with_relu) layers.push_back({relu, name + ".relu"});
    return layers.back().name;
  }

  std::string pool(const std::string& name, LayerKind kind, Window window,
                   std::vector<std::string> from = {}) {
    layers.push_back({.kind = kind, .name = name, .window = window, .from = std::move(from)});
    return name;
  }

  std::string join(const std::string& name, LayerKind kind, std::vector<std::string> from) {
    layers.push_back({.kind = kind, .name = name, .from = std::move(from)});
    return name;
  }

  /// `names` are a residual block's branch, which must come last in the list, and its input.
  std::string residual_sum(const std::string& block, std::vector<std::string> names) {
    join(block + ".sum", add, std::move(names));
    layers.push_back({relu, block + ".relu"});
    return layers.back().name;
  }
};

/// The input of a block, projected where its shape changes.
std::string shortcut(NormalisedList& list, const std::string& block, const std::string& input,
                     int outputs, int stride, bool project) {
  if (!project) return input;
  return list.conv(block + ".shortcut", outputs, square(1, stride), false, {input});
}

// He et al. 2016, section 4.2: 6n + 2 layers for CIFAR-10, here with projection shortcuts.
Layers cifar_resnet(int blocks) {
  NormalisedList list{{}, Start::he, 0, 1e-5};
  std::string last = list.conv("conv1", 16, square(3, 1, 1));
  for (int stage = 0; stage < 3; ++stage) {
    const int width = 16 << stage;
    for (int b = 0; b < blocks; ++b) {
      const std::string block = fmt::format("stage{}.{}", stage + 1, b);
      const bool halves = stage > 0 && b == 0;
      const int stride = halves ? 2 : 1;
      const std::string input = shortcut(list, block, last, width, stride, halves);
      list.conv(block + ".conv1", width, square(3, stride, 1), true, {last});
      const std::string branch = list.conv(block + ".conv2", width, square(3, 1, 1), false);
      last = list.residual_sum(block, {branch, input});
    }
  }
  list.pool("pool", average_pooling, whole_image);
  list.layers.push_back({linear, "fc"});
  return std::move(list.layers);
}

Layers resnet20() { return cifar_resnet(3); }
Layers resnet32() { return cifar_resnet(5); }
Layers resnet56() { return cifar_resnet(9); }

// He et al. 2016, with the strides in the 3x3 convolutions (Goyal et al. 2017).
Layers resnet50() {
  NormalisedList list{{}, Start::he, 0, 1e-5};
  list.conv("conv1", 64, square(7, 2, 3));
  std::string last = list.pool("pool1", max_pooling, square(3, 2, 1));
  constexpr int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int width = 64 << stage;
    for (int b = 0; b < blocks[stage]; ++b) {
      const std::string block = fmt::format("stage{}.{}", stage + 1, b);
      const int stride = stage > 0 && b == 0 ? 2 : 1;
      const std::string input = shortcut(list, block, last, 4 * width, stride, b == 0);
      list.conv(block + ".conv1", width, square(1), true, {last});
      list.conv(block + ".conv2", width, square(3, stride, 1));
      const std::string branch = list.conv(block + ".conv3", 4 * width, square(1), false);
      last = list.residual_sum(block, {branch, input});
    }
  }
  list.pool("pool5", average_pooling, whole_image);
  list.layers.push_back({linear, "fc"});
  return std::move(list.layers);
}

constexpr Window wide(int size) { return {1, size, 1, 0, size / 2}; }
constexpr Window tall(int size) { return {size, 1, 1, size / 2, 0}; }

/// A branch of an Inception block: convolutions one behind the other.
struct Step {
  const char* name;
  int outputs;
  Window window;
};
std::string branch(NormalisedList& list, const std::string& block, const std::string& input,
                   std::initializer_list<Step> steps) {
  std::string last = input;
  for (const Step& step : steps)
    last =
        list.conv(fmt::format("{}.{}", block, step.name), step.outputs, step.window, true, {last});
  return last;
}

/// Average pooling, then a 1x1 convolution.
std::string pooled_branch(NormalisedList& list, const std::string& block, const std::string& input,
                          int outputs) {
  const std::string pooled = list.pool(block + ".pool", average_pooling, square(3, 1, 1), {input});
  return branch(list, block, pooled, {{"pooled", outputs, square(1)}});
}

std::string inception_a(NormalisedList& list, const std::string& b, const std::string& in,
                        int pooled) {
  const std::string one = branch(list, b, in, {{"1x1", 64, square(1)}});
  const std::string five =
      branch(list, b, in, {{"5x5a", 48, square(1)}, {"5x5b", 64, square(5, 1, 2)}});
  const std::string three = branch(
      list, b, in,
      {{"3x3a", 64, square(1)}, {"3x3b", 96, square(3, 1, 1)}, {"3x3c", 96, square(3, 1, 1)}});
  return list.join(b, concat, {one, five, three, pooled_branch(list, b, in, pooled)});
}

std::string inception_b(NormalisedList& list, const std::string& b, const std::string& in) {
  const std::string one = branch(list, b, in, {{"3x3", 384, square(3, 2)}});
  const std::string two = branch(
      list, b, in,
      {{"dbl_a", 64, square(1)}, {"dbl_b", 96, square(3, 1, 1)}, {"dbl_c", 96, square(3, 2)}});
  const std::string pooled = list.pool(b + ".pool", max_pooling, square(3, 2), {in});
  return list.join(b, concat, {one, two, pooled});
}

std::string inception_c(NormalisedList& list, const std::string& b, const std::string& in,
                        int width) {
  const std::string one = branch(list, b, in, {{"1x1", 192, square(1)}});
  const std::string seven = branch(
      list, b, in, {{"7x7a", width, square(1)}, {"7x7b", width, wide(7)}, {"7x7c", 192, tall(7)}});
  const std::string twice = branch(list, b, in,
                                   {{"dbl_a", width, square(1)},
                                    {"dbl_b", width, tall(7)},
                                    {"dbl_c", width, wide(7)},
                                    {"dbl_d", width, tall(7)},
                                    {"dbl_e", 192, wide(7)}});
  return list.join(b, concat, {one, seven, twice, pooled_branch(list, b, in, 192)});
}

std::string inception_d(NormalisedList& list, const std::string& b, const std::string& in) {
  const std::string three =
      branch(list, b, in, {{"3x3a", 192, square(1)}, {"3x3b", 320, square(3, 2)}});
  const std::string seven = branch(list, b, in,
                                   {{"7x7a", 192, square(1)},
                                    {"7x7b", 192, wide(7)},
                                    {"7x7c", 192, tall(7)},
                                    {"7x7d", 192, square(3, 2)}});
  const std::string pooled = list.pool(b + ".pool", max_pooling, square(3, 2), {in});
  return list.join(b, concat, {three, seven, pooled});
}

std::string inception_e(NormalisedList& list, const std::string& b, const std::string& in) {
  const std::string one = branch(list, b, in, {{"1x1", 320, square(1)}});
  const std::string three = branch(list, b, in, {{"3x3", 384, square(1)}});
  const std::string three_a = branch(list, b, three, {{"3x3a", 384, wide(3)}});
  const std::string three_b = branch(list, b, three, {{"3x3b", 384, tall(3)}});
  const std::string twice =
      branch(list, b, in, {{"dbl", 448, square(1)}, {"dbl_3x3", 384, square(3, 1, 1)}});
  const std::string twice_a = branch(list, b, twice, {{"dbl_a", 384, wide(3)}});
  const std::string twice_b = branch(list, b, twice, {{"dbl_b", 384, tall(3)}});
  return list.join(b, concat,
                   {one, three_a, three_b, twice_a, twice_b, pooled_branch(list, b, in, 192)});
}

// Szegedy et al. 2016 without the side head, as Google and torchvision publish it.
Layers inception3() {
  NormalisedList list{{}, Start::normal, 0.1, 1e-3};
  list.conv("conv1a", 32, square(3, 2));
  list.conv("conv2a", 32, square(3));
  list.conv("conv2b", 64, square(3, 1, 1));
  list.pool("pool2", max_pooling, square(3, 2));
  list.conv("conv3b", 80, square(1));
  list.conv("conv4a", 192, square(3));
  std::string last = list.pool("pool4", max_pooling, square(3, 2));
  last = inception_a(list, "mixed5b", last, 32);
  last = inception_a(list, "mixed5c", last, 64);
  last = inception_a(list, "mixed5d", last, 64);
  last = inception_b(list, "mixed6a", last);
  last = inception_c(list, "mixed6b", last, 128);
  last = inception_c(list, "mixed6c", last, 160);
  last = inception_c(list, "mixed6d", last, 160);
  last = inception_c(list, "mixed6e", last, 192);
  last = inception_d(list, "mixed7a", last);
  last = inception_e(list, "mixed7b", last);
  last = inception_e(list, "mixed7c", last);
  list.pool("pool7", average_pooling, whole_image);
  list.layers.push_back({.kind = dropout, .name = "dropout", .rate = 0.5});
  list.layers.push_back({linear, "fc"});
  return std::move(list.layers);
}

constexpr SampleShape cifar_image{3, 32, 32};

constexpr Model models[] = {
    {"softmax", softmax, 256, 256},
    {"mlp", mlp, 256, 256},
    {"cnn", cnn, 8, 32},
    {"cifarnet", cifarnet, 16, 32, cifar_image},
    {"resnet20", resnet20, 16, 16, cifar_image},
    {"resnet32", resnet32, 16, 16, cifar_image},
    {"resnet56", resnet56, 16, 16, cifar_image},
    {"resnet50", resnet50, 16, 16, {3, 224, 224}, 1000},
    {"inception3", inception3, 16, 16, {3, 299, 299}, 1000},
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
