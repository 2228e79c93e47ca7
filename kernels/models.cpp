#include "kernels/models.h"

#include <array>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace evenstep::kernels {
namespace {

using enum LayerKind;

constexpr LayerSpec softmax_layers[] = {{linear, "fc"}};

constexpr LayerSpec mlp_layers[] = {
    {linear, "fc1", 512}, {relu, "relu1"}, {linear, "fc2", 512}, {relu, "relu2"}, {linear, "fc3"},
};

// ReLU and max pooling commute, values and gradients both; after the pool it has a quarter of the
// elements to work on.
constexpr LayerSpec cnn_layers[] = {
    {convolution, "conv1", 32}, {max_pooling, "pool1"}, {relu, "relu1"},
    {convolution, "conv2", 64}, {max_pooling, "pool2"}, {relu, "relu2"},
    {linear, "fc1", 128},       {relu, "relu3"},        {linear, "fc2"},
};

constexpr Model models[] = {
    {"softmax", softmax_layers, 256, 256},
    {"mlp", mlp_layers, 256, 256},
    {"cnn", cnn_layers, 16, 32},
};

constexpr auto names = [] {
  std::array<const char*, std::size(models)> result{};
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = models[i].name;
  return result;
}();

/// Appends a layer's weight and bias; `shape[0]` is the number of outputs.
void append_pair(std::vector<ParameterRange>& ranges, const LayerSpec& layer,
                 std::vector<std::int64_t> shape) {
  const std::int64_t first = ranges.empty() ? 0 : ranges.back().first + ranges.back().count;
  const std::int64_t outputs = shape[0];
  std::int64_t fan_in = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= shape[i];
  const std::int64_t count = outputs * fan_in;
  ranges.push_back({fmt::format("{}.weight", layer.name), first, count, std::move(shape), fan_in});
  ranges.push_back({fmt::format("{}.bias", layer.name), first + count, outputs, {outputs}, fan_in});
}

void append_parameters(std::vector<ParameterRange>& ranges, const LayerSpec& layer,
                       SampleShape input, int classes) {
  const int outputs = layer.outputs == 0 ? classes : layer.outputs;
  if (layer.kind == convolution) append_pair(ranges, layer, {outputs, input.channels, 3, 3});
  if (layer.kind == linear) append_pair(ranges, layer, {outputs, input.elements()});
}

void check_input(SampleShape input, int classes) {
  if (input.channels < 1 || input.height < 1 || input.width < 1) {
    throw std::invalid_argument(
        fmt::format("sample shape {}x{}x{}: every dimension must be at least 1", input.channels,
                    input.height, input.width));
  }
  if (classes < 2)
    throw std::invalid_argument(fmt::format("{} classes: must be at least 2", classes));
}

}  // namespace

const Model& find_model(std::string_view name) {
  for (const Model& model : models) {
    if (name == model.name) return model;
  }
  throw std::invalid_argument(
      fmt::format("unknown model '{}'; the models are {}", name, fmt::join(names, ", ")));
}

std::span<const char* const> model_names() { return names; }

SampleShape output_shape(const LayerSpec& layer, SampleShape input, int classes) {
  const int outputs = layer.outputs == 0 ? classes : layer.outputs;
  switch (layer.kind) {
    case convolution:
      return {outputs, input.height, input.width};
    case linear:
      return {outputs, 1, 1};
    case relu:
      return input;
    case max_pooling:
      break;
  }
  if (input.height < 2 || input.width < 2) {
    throw std::invalid_argument(fmt::format(
        "{}: cannot pool {}x{} values 2x2; take larger images or a model with less pooling",
        layer.name, input.height, input.width));
  }
  return {input.channels, input.height / 2, input.width / 2};
}

std::vector<ParameterRange> parameter_ranges(std::span<const LayerSpec> layers, SampleShape input,
                                             int classes) {
  check_input(input, classes);
  std::vector<SampleShape> inputs;
  for (const LayerSpec& layer : layers) {
    inputs.push_back(input);
    input = output_shape(layer, input, classes);
  }
  std::vector<ParameterRange> ranges;
  for (std::size_t i = layers.size(); i-- > 0;) {
    append_parameters(ranges, layers[i], inputs[i], classes);
  }
  return ranges;
}

}  // namespace evenstep::kernels
