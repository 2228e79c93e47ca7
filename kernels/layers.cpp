#include "kernels/layers.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

namespace evenstep::kernels {
namespace {

using enum LayerKind;

void check_input(SampleShape input, int classes) {
  if (input.channels < 1 || input.height < 1 || input.width < 1) {
    throw std::invalid_argument(
        fmt::format("sample shape {}x{}x{}: every dimension must be at least 1", input.channels,
                    input.height, input.width));
  }
  if (classes < 2)
    throw std::invalid_argument(fmt::format("{} classes: must be at least 2", classes));
}

/// Where a window of `size` can stand along `length` values.
int places(int length, int size, int stride, int pad) {
  return (length + 2 * pad - size) / stride + 1;
}

SampleShape slide(const LayerSpec& layer, SampleShape in, int channels) {
  const Window& w = layer.window;
  if (in.height + 2 * w.pad_height < w.height || in.width + 2 * w.pad_width < w.width) {
    throw std::invalid_argument(
        fmt::format("{}: a window of {}x{} does not fit into {}x{} values padded by {}x{}; take "
                    "larger images or a model with smaller strides",
                    layer.name, w.height, w.width, in.height, in.width, w.pad_height, w.pad_width));
  }
  return {channels, places(in.height, w.height, w.stride, w.pad_height),
          places(in.width, w.width, w.stride, w.pad_width)};
}

SampleShape joined(const Node& node) {
  const SampleShape& first = node.input_shapes[0];
  for (const SampleShape& shape : node.input_shapes) {
    if (shape == first) continue;
    throw std::invalid_argument(
        fmt::format("{}: cannot add {}x{}x{} and {}x{}x{} values", node.spec.name, first.channels,
                    first.height, first.width, shape.channels, shape.height, shape.width));
  }
  return first;
}

SampleShape output_shape(const Node& node, int classes) {
  const SampleShape& input = node.input_shapes[0];
  const int outputs = node.spec.outputs == 0 ? classes : node.spec.outputs;
  switch (node.spec.kind) {
    case convolution:
      return slide(node.spec, input, outputs);
    case max_pooling:
      return slide(node.spec, input, input.channels);
    case linear:
      return {outputs, 1, 1};
    case add:
      return joined(node);
    case relu:
      break;
  }
  return input;
}

using Names = std::map<std::string, int>;

std::vector<int> find_inputs(const LayerSpec& layer, int previous, const Names& names) {
  if (layer.from.empty()) return {previous};
  std::vector<int> inputs;
  for (const std::string& name : layer.from) {
    const auto found = names.find(name);
    if (found == names.end()) {
      throw std::invalid_argument(
          fmt::format("{} reads '{}', which is no layer before it", layer.name, name));
    }
    inputs.push_back(found->second);
  }
  return inputs;
}

}  // namespace

std::vector<Node> make_graph(std::span<const LayerSpec> layers, SampleShape input, int classes) {
  check_input(input, classes);
  std::vector<Node> nodes;
  Names names;
  for (const LayerSpec& layer : layers) {
    const int index = static_cast<int>(nodes.size());
    Node node{layer, find_inputs(layer, index - 1, names), {}, {}};
    for (int i : node.inputs) {
      const bool first = i == Node::network_input;
      node.input_shapes.push_back(first ? input : nodes[static_cast<std::size_t>(i)].output_shape);
    }
    node.output_shape = output_shape(node, classes);
    nodes.push_back(std::move(node));
    names[layer.name] = index;
  }
  return nodes;
}

std::vector<ParameterRange> parameter_ranges(const Node& node, std::int64_t first) {
  const LayerSpec& layer = node.spec;
  const SampleShape& input = node.input_shapes[0];
  const std::int64_t outputs = node.output_shape.channels;
  std::vector<std::int64_t> shape;
  if (layer.kind == convolution)
    shape = {outputs, input.channels, layer.window.height, layer.window.width};
  if (layer.kind == linear) shape = {outputs, input.elements()};
  if (shape.empty()) return {};
  std::int64_t fan_in = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= shape[i];
  const std::int64_t count = outputs * fan_in;
  std::vector<ParameterRange> ranges;
  ranges.push_back({layer.name + ".weight", first, count, std::move(shape), fan_in});
  if (layer.bias || layer.kind == linear)
    ranges.push_back({layer.name + ".bias", first + count, outputs, {outputs}, fan_in});
  return ranges;
}

std::int64_t forward_flops(const Node& node) {
  const auto ranges = parameter_ranges(node);
  if (ranges.empty()) return 0;
  const SampleShape& out = node.output_shape;
  return 2 * ranges[0].count * out.height * out.width;  // each weight once an output pixel
}

std::vector<ParameterRange> parameter_ranges(std::span<const LayerSpec> layers, SampleShape input,
                                             int classes) {
  const std::vector<Node> nodes = make_graph(layers, input, classes);
  std::vector<ParameterRange> ranges;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const std::int64_t first = ranges.empty() ? 0 : ranges.back().first + ranges.back().count;
    for (ParameterRange& range : parameter_ranges(nodes[i], first))
      ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace evenstep::kernels
