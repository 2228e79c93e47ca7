#include "kernels/layers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
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

/// Where a window of `size` can stand along `length` values. None begins in the padding behind.
int places(int length, int size, int stride, int pad, bool overhang) {
  const int rest = length + 2 * pad - size;
  int count = (rest + (overhang ? stride - 1 : 0)) / stride + 1;
  if ((count - 1) * stride >= length + pad) --count;
  return count;
}

SampleShape slide(const LayerSpec& layer, SampleShape in, int channels) {
  const Window& w = layer.window;
  if (in.height + 2 * w.pad_height < w.height || in.width + 2 * w.pad_width < w.width) {
    throw std::invalid_argument(
        fmt::format("{}: a window of {}x{} does not fit into {}x{} values padded by {}x{}; take "
                    "larger images or a model with smaller strides",
                    layer.name, w.height, w.width, in.height, in.width, w.pad_height, w.pad_width));
  }
  return {channels, places(in.height, w.height, w.stride, w.pad_height, w.overhang),
          places(in.width, w.width, w.stride, w.pad_width, w.overhang)};
}

[[noreturn]] void refuse_join(const Node& node, const SampleShape& a, const SampleShape& b) {
  throw std::invalid_argument(fmt::format("{}: cannot join {}x{}x{} and {}x{}x{} values",
                                          node.spec.name, a.channels, a.height, a.width, b.channels,
                                          b.height, b.width));
}

SampleShape sum_shape(const Node& node) {
  const SampleShape& first = node.input_shapes[0];
  if (node.input_shapes.size() != 2 || node.input_shapes[1] != first)
    refuse_join(node, first, node.input_shapes.back());
  return first;
}

SampleShape concat_shape(const Node& node) {
  SampleShape whole = node.input_shapes[0];
  whole.channels = 0;
  for (const SampleShape& shape : node.input_shapes) {
    if (shape.height != whole.height || shape.width != whole.width)
      refuse_join(node, node.input_shapes[0], shape);
    whole.channels += shape.channels;
  }
  return whole;
}

SampleShape embedding_shape(const Node& node, int outputs) {
  const SampleShape& input = node.input_shapes[0];
  if (node.inputs[0] != Node::network_input || input.channels != 1 || input.width != 1) {
    throw std::invalid_argument(
        fmt::format("{}: an embedding reads the network's tokens, 1 x tokens x 1, not {}x{}x{}",
                    node.spec.name, input.channels, input.height, input.width));
  }
  return {outputs, input.height, 1};
}

SampleShape attention_shape(const Node& node) {
  const SampleShape& input = node.input_shapes[0];
  const int heads = node.spec.heads;
  if (heads < 1 || input.channels % 3 != 0 || input.channels / 3 % heads != 0) {
    throw std::invalid_argument(
        fmt::format("{}: {} heads cannot share {} features as queries, keys and values",
                    node.spec.name, heads, input.channels));
  }
  return {input.channels / 3, input.height, input.width};
}

SampleShape output_shape(const Node& node) {
  const SampleShape& input = node.input_shapes[0];
  const int outputs = node.spec.outputs == 0 ? node.classes : node.spec.outputs;
  switch (node.spec.kind) {
    case convolution:
      return slide(node.spec, input, outputs);
    case max_pooling:
    case average_pooling:
      return slide(node.spec, input, input.channels);
    case linear:
      return {outputs, 1, 1};
    case add:
      return sum_shape(node);
    case concat:
      return concat_shape(node);
    case embedding:
      return embedding_shape(node, outputs);
    case token_linear:
      return {outputs, input.height, input.width};
    case tied_linear:
      return {node.classes, input.height, input.width};
    case attention:
      return attention_shape(node);
    case batch_norm:
    case local_response_norm:
    case dropout:
    case relu:
    case layer_norm:
    case gelu:
      break;
  }
  return input;
}

using Names = std::map<std::string, int>;

int find(const LayerSpec& layer, const std::string& name, const Names& names) {
  const auto found = names.find(name);
  if (found == names.end()) {
    throw std::invalid_argument(
        fmt::format("{} reads '{}', which is no layer before it", layer.name, name));
  }
  return found->second;
}

std::vector<int> find_inputs(const LayerSpec& layer, int previous, const Names& names) {
  if (layer.from.empty()) return {previous};
  std::vector<int> inputs;
  inputs.reserve(layer.from.size());
  for (const std::string& name : layer.from) inputs.push_back(find(layer, name, names));
  return inputs;
}

void check_tie(const Node& node, const Node& source) {
  if (source.spec.kind != embedding ||
      source.output_shape.channels != node.input_shapes[0].channels)
    throw std::invalid_argument(fmt::format("{}: '{}' is no embedding of {} features",
                                            node.spec.name, source.spec.name,
                                            node.input_shapes[0].channels));
}

}  // namespace

std::vector<Node> make_graph(std::span<const LayerSpec> layers, SampleShape input, int classes) {
  check_input(input, classes);
  std::vector<Node> nodes;
  Names names;
  for (const LayerSpec& layer : layers) {
    const int index = static_cast<int>(nodes.size());
    Node node{layer, find_inputs(layer, index - 1, names), {}, {}, classes};
    for (int i : node.inputs) {
      const bool first = i == Node::network_input;
      node.input_shapes.push_back(first ? input : nodes[static_cast<std::size_t>(i)].output_shape);
    }
    if (layer.window == whole_image)
      node.spec.window = {node.input_shapes[0].height, node.input_shapes[0].width};
    node.output_shape = output_shape(node);
    if (layer.kind == tied_linear) {
      node.weights_of = find(layer, layer.weights_of, names);
      check_tie(node, nodes[static_cast<std::size_t>(node.weights_of)]);
    }
    nodes.push_back(std::move(node));
    names[layer.name] = index;
  }
  return nodes;
}

namespace {

InitialValue start_of_weights(const LayerSpec& layer, std::int64_t fan_in) {
  const auto inputs = static_cast<double>(fan_in);
  switch (layer.start) {
    case Start::fan_in:
      break;
    case Start::he:
      return {InitialValue::Kind::normal, std::sqrt(2 / inputs)};
    case Start::normal:
      return {InitialValue::Kind::normal, layer.deviation};
  }
  return {InitialValue::Kind::uniform, 1 / std::sqrt(inputs)};
}

/// One value a channel.
ParameterRange channel_range(const Node& node, const char* what, std::int64_t first, double start) {
  const std::int64_t channels = node.output_shape.channels;
  return {
      node.spec.name + what, first, channels, {channels}, 1, {InitialValue::Kind::constant, start}};
}

/// What the weights of a convolution or linear layer look like, its own or not; of others, nothing.
std::vector<std::int64_t> weight_shape(const Node& node) {
  const SampleShape& input = node.input_shapes[0];
  const Window& window = node.spec.window;
  const std::int64_t outputs = node.output_shape.channels;
  if (node.spec.kind == convolution) return {outputs, input.channels, window.height, window.width};
  if (node.spec.kind == linear) return {outputs, input.elements()};
  if (node.spec.kind == token_linear || node.spec.kind == tied_linear)
    return {outputs, input.channels};
  return {};
}

std::int64_t product(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{1}, std::multiplies());
}

/// Of the tokens, then of their places. The weights of tokens may be a tied layer's, too: their
/// fan_in is its.
std::vector<ParameterRange> embedding_ranges(const Node& node, std::int64_t first) {
  const InitialValue start{InitialValue::Kind::normal, node.spec.deviation};
  const std::int64_t features = node.output_shape.channels;
  const auto range = [&](const char* what, std::int64_t at, std::int64_t rows) {
    return ParameterRange{node.spec.name + what, at,       rows * features,
                          {rows, features},      features, start};
  };
  return {range(".tokens", first, node.classes),
          range(".places", first + node.classes * features, node.output_shape.height)};
}

}  // namespace

std::vector<ParameterRange> parameter_ranges(const Node& node, std::int64_t first) {
  const LayerSpec& layer = node.spec;
  const std::int64_t outputs = node.output_shape.channels;
  if (layer.kind == embedding) return embedding_ranges(node, first);
  if (layer.kind == tied_linear) return {};
  if (layer.kind == batch_norm || layer.kind == layer_norm) {
    return {channel_range(node, ".weight", first, 1),
            channel_range(node, ".bias", first + outputs, 0)};
  }
  const std::vector<std::int64_t> shape = weight_shape(node);
  if (shape.empty()) return {};
  const std::int64_t count = product(shape);
  const std::int64_t fan_in = count / outputs;
  const InitialValue start = start_of_weights(layer, fan_in);
  std::vector<ParameterRange> ranges;
  ranges.push_back({layer.name + ".weight", first, count, shape, fan_in, start});
  if (!layer.bias && layer.kind == convolution) return ranges;
  ParameterRange bias{layer.name + ".bias", first + count, outputs, {outputs}, fan_in, start};
  if (layer.start != Start::fan_in) bias.start = {InitialValue::Kind::constant, 0};
  ranges.push_back(std::move(bias));
  return ranges;
}

std::vector<ParameterRange> average_ranges(const Node& node, std::int64_t first) {
  if (node.spec.kind != batch_norm) return {};
  std::vector<ParameterRange> ranges = {
      channel_range(node, ".running_mean", first, 0),
      channel_range(node, ".running_var", first + node.output_shape.channels, 1)};
  for (ParameterRange& range : ranges) range.trained = false;
  return ranges;
}

std::int64_t forward_flops(const Node& node) {
  const std::vector<std::int64_t> shape = weight_shape(node);
  const std::int64_t places = std::int64_t{node.output_shape.height} * node.output_shape.width;
  if (node.spec.kind == attention) return 4 * places * places * node.output_shape.channels;
  return shape.empty() ? 0 : 2 * product(shape) * places;  // each weight once an output pixel
}

std::vector<ParameterRange> parameter_ranges(std::span<const LayerSpec> layers, SampleShape input,
                                             int classes) {
  const std::vector<Node> nodes = make_graph(layers, input, classes);
  std::vector<ParameterRange> ranges;
  const auto append = [&](auto ranges_of) {
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const std::int64_t first = ranges.empty() ? 0 : ranges.back().first + ranges.back().count;
      for (ParameterRange& range : ranges_of(nodes[i], first)) ranges.push_back(std::move(range));
    }
  };
  append([](const Node& node, std::int64_t first) { return parameter_ranges(node, first); });
  append([](const Node& node, std::int64_t first) { return average_ranges(node, first); });
  return ranges;
}

}  // namespace evenstep::kernels
