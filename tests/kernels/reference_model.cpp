#include "tests/kernels/reference_model.h"

#include <algorithm>
#include <cmath>

namespace evenstep::kernels::test {
namespace {

using Values = std::vector<double>;

/// `weight` and `bias` of one layer.
struct Parameters {
  std::span<const double> weight;
  std::span<const double> bias;
};

/// Values [channel][y][x] of one sample.
struct Map {
  Values values;
  SampleShape shape;

  bool has(int y, int x) const { return y >= 0 && y < shape.height && x >= 0 && x < shape.width; }
  double at(int c, int y, int x) const {
    return values[static_cast<std::size_t>((c * shape.height + y) * shape.width + x)];
  }
};

/// Calls visit(y, x, tap) for each place of the window at output (oy, ox), tap counting from 0.
template <typename Visit>
void slide(const Window& w, int oy, int ox, Visit visit) {
  for (int k = 0; k < w.height * w.width; ++k)
    visit(oy * w.stride - w.pad_height + k / w.width, ox * w.stride - w.pad_width + k % w.width, k);
}

/// Calls value(c, y, x) for each output in order.
template <typename Value>
Map fill(SampleShape shape, Value value) {
  Map out{{}, shape};
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) out.values.push_back(value(c, y, x));
    }
  }
  return out;
}

Map convolve(const Map& in, const Node& node, const Parameters& p) {
  const Window& w = node.spec.window;
  return fill(node.output_shape, [&](int o, int oy, int ox) {
    double sum = p.bias.empty() ? 0 : p.bias[static_cast<std::size_t>(o)];
    for (int c = 0; c < in.shape.channels; ++c) {
      const int first = (o * in.shape.channels + c) * w.height * w.width;
      slide(w, oy, ox, [&](int y, int x, int k) {
        if (in.has(y, x)) sum += p.weight[static_cast<std::size_t>(first + k)] * in.at(c, y, x);
      });
    }
    return sum;
  });
}

Map max_pool(const Map& in, const Node& node) {
  return fill(node.output_shape, [&](int c, int oy, int ox) {
    double largest = -INFINITY;
    slide(node.spec.window, oy, ox, [&](int y, int x, int) {
      if (in.has(y, x)) largest = std::max(largest, in.at(c, y, x));
    });
    return largest;
  });
}

/// Zeros in the padding count, what lies beyond it does not.
Map average_pool(const Map& in, const Node& node) {
  const Window& w = node.spec.window;
  return fill(node.output_shape, [&](int c, int oy, int ox) {
    double sum = 0;
    int taps = 0;
    slide(w, oy, ox, [&](int y, int x, int) {
      if (y >= in.shape.height + w.pad_height || x >= in.shape.width + w.pad_width) return;
      if (in.has(y, x)) sum += in.at(c, y, x);
      ++taps;
    });
    return sum / taps;
  });
}

Map local_response_norm(const Map& in, const LayerSpec& spec) {
  const int reach = spec.window.height / 2;
  return fill(in.shape, [&](int c, int y, int x) {
    double squares = 0;
    int taps = 0;
    for (int i = -reach; i <= reach; ++i) {
      if (spec.across_channels) {
        ++taps;
        if (c + i >= 0 && c + i < in.shape.channels) squares += std::pow(in.at(c + i, y, x), 2);
        continue;
      }
      for (int j = -reach; j <= reach; ++j) {
        ++taps;
        if (in.has(y + i, x + j)) squares += std::pow(in.at(c, y + i, x + j), 2);
      }
    }
    return in.at(c, y, x) / std::pow(1 + spec.alpha * squares / taps, spec.beta);
  });
}

Map concatenate(const std::vector<const Map*>& inputs, const Node& node) {
  Map out{{}, node.output_shape};
  for (const Map* in : inputs)
    out.values.insert(out.values.end(), in->values.begin(), in->values.end());
  return out;
}

/// One group of samples.
std::vector<Map> batch_norm(std::vector<Map> group, const LayerSpec& spec, const Parameters& p) {
  const SampleShape shape = group[0].shape;
  const auto pixels =
      static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  const auto count = static_cast<double>(pixels * group.size());
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape.channels); ++c) {
    const auto for_each = [&](auto run) {
      for (Map& map : group) {
        for (std::size_t i = c * pixels; i < (c + 1) * pixels; ++i) run(map.values[i]);
      }
    };
    double mean = 0;
    for_each([&](double& value) { mean += value / count; });
    double variance = 0;
    for_each([&](double& value) { variance += (value - mean) * (value - mean) / count; });
    const double scale = p.weight[c] / std::sqrt(variance + spec.epsilon);
    for_each([&](double& value) { value = (value - mean) * scale + p.bias[c]; });
  }
  return group;
}

Map multiply(const Map& in, const Node& node, const Parameters& p) {
  return fill(node.output_shape, [&](int o, int, int) {
    const std::size_t row = static_cast<std::size_t>(o) * in.values.size();
    double sum = p.bias.empty() ? 0 : p.bias[static_cast<std::size_t>(o)];
    for (std::size_t i = 0; i < in.values.size(); ++i) sum += p.weight[row + i] * in.values[i];
    return sum;
  });
}

/// Tokens are values, as one-pixel-wide images of one channel.
Map embed(const Map& tokens, const Node& node, const Parameters& p) {
  const auto width = static_cast<std::size_t>(node.output_shape.channels);
  return fill(node.output_shape, [&](int c, int y, int) {
    const auto token = static_cast<std::size_t>(tokens.at(0, y, 0));
    return p.weight[token * width + static_cast<std::size_t>(c)] +
           p.bias[static_cast<std::size_t>(y) * width + static_cast<std::size_t>(c)];
  });
}

Map layer_norm(const Map& in, const LayerSpec& spec, const Parameters& p) {
  return fill(in.shape, [&](int c, int y, int x) {
    double mean = 0;
    double variance = 0;
    for (int i = 0; i < in.shape.channels; ++i) mean += in.at(i, y, x) / in.shape.channels;
    for (int i = 0; i < in.shape.channels; ++i)
      variance += std::pow(in.at(i, y, x) - mean, 2) / in.shape.channels;
    const auto at = static_cast<std::size_t>(c);
    return (in.at(c, y, x) - mean) / std::sqrt(variance + spec.epsilon) * p.weight[at] + p.bias[at];
  });
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

Map multiply_tokens(const Map& in, const Node& node, const Parameters& p) {
  return fill(node.output_shape, [&](int o, int y, int x) {
    const auto row = static_cast<std::size_t>(o) * static_cast<std::size_t>(in.shape.channels);
    double sum = p.bias.empty() ? 0 : p.bias[static_cast<std::size_t>(o)];
    for (int c = 0; c < in.shape.channels; ++c)
      sum += p.weight[row + static_cast<std::size_t>(c)] * in.at(c, y, x);
    return sum;
  });
}

Map attend(const Map& in, const Node& node) {
  const int width = node.output_shape.channels;
  const int features = width / node.spec.heads;
  return fill(node.output_shape, [&](int c, int y, int) {
    const int head = c / features * features;
    double sum = 0;
    double product = 0;
    for (int key = 0; key <= y; ++key) {
      double score = 0;
      for (int i = head; i < head + features; ++i)
        score += in.at(i, y, 0) * in.at(width + i, key, 0) / std::sqrt(features);
      sum += std::exp(score);
      product += std::exp(score) * in.at(2 * width + c, key, 0);
    }
    return product / sum;
  });
}

Map apply(const Node& node, const std::vector<const Map*>& inputs, const Parameters& p) {
  const Map& in = *inputs[0];
  switch (node.spec.kind) {
    case LayerKind::convolution:
      return convolve(in, node, p);
    case LayerKind::max_pooling:
      return max_pool(in, node);
    case LayerKind::linear:
      return multiply(in, node, p);
    case LayerKind::average_pooling:
      return average_pool(in, node);
    case LayerKind::local_response_norm:
      return local_response_norm(in, node.spec);
    case LayerKind::concat:
      return concatenate(inputs, node);
    case LayerKind::add:
      return fill(in.shape,
                  [&](int c, int y, int x) { return in.at(c, y, x) + inputs[1]->at(c, y, x); });
    case LayerKind::embedding:
      return embed(in, node, p);
    case LayerKind::layer_norm:
      return layer_norm(in, node.spec, p);
    case LayerKind::gelu:
      return fill(in.shape, [&](int c, int y, int x) { return gelu(in.at(c, y, x)); });
    case LayerKind::token_linear:
    case LayerKind::tied_linear:
      return multiply_tokens(in, node, p);
    case LayerKind::attention:
      return attend(in, node);
    case LayerKind::batch_norm:  // not of one sample
    case LayerKind::dropout:     // not here
    case LayerKind::relu:
      break;
  }
  return fill(in.shape, [&](int c, int y, int x) { return std::max(in.at(c, y, x), 0.0); });
}

double cross_entropy(const Map& logits, int y, int label) {
  double sum = 0;
  for (int c = 0; c < logits.shape.channels; ++c)
    sum += std::exp(logits.at(c, y, 0) - logits.at(label, y, 0));
  return std::log(sum);
}

/// The node's own parameters; those of the first node come last.
Parameters take_parameters(const Node& node, std::span<const double>& parameters) {
  Parameters own;
  const auto ranges = parameter_ranges(node);
  for (std::size_t i = ranges.size(); i-- > 0;) {
    const auto count = static_cast<std::size_t>(ranges[i].count);
    (i == 0 ? own.weight : own.bias) = parameters.last(count);
    parameters = parameters.first(parameters.size() - count);
  }
  return own;
}

/// The node's output for each sample of a group.
std::vector<Map> apply_to_group(const Node& node,
                                const std::vector<const std::vector<Map>*>& inputs,
                                const Parameters& p) {
  if (node.spec.kind == LayerKind::batch_norm) return batch_norm(*inputs[0], node.spec, p);
  std::vector<Map> outputs;
  for (std::size_t s = 0; s < inputs[0]->size(); ++s) {
    std::vector<const Map*> of_sample;
    for (const std::vector<Map>* input : inputs) of_sample.push_back(&(*input)[s]);
    outputs.push_back(apply(node, of_sample, p));
  }
  return outputs;
}

/// The logits of a group of samples.
std::vector<Map> logits_of(std::span<const Node> nodes, const std::vector<Map>& images,
                           std::span<const double> parameters) {
  std::vector<std::vector<Map>> maps;
  std::vector<Parameters> own;
  for (const Node& node : nodes) {
    own.push_back(take_parameters(node, parameters));
    if (node.spec.kind == LayerKind::tied_linear)
      own.back().weight = own[static_cast<std::size_t>(node.weights_of)].weight;
    std::vector<const std::vector<Map>*> inputs;
    for (int i : node.inputs)
      inputs.push_back(i == Node::network_input ? &images : &maps[static_cast<std::size_t>(i)]);
    maps.push_back(apply_to_group(node, inputs, own.back()));
  }
  return maps.back();
}

std::span<const double> trained(std::span<const Node> nodes, std::span<const double> parameters) {
  std::size_t count = 0;
  for (const Node& node : nodes) {
    for (const ParameterRange& range : parameter_ranges(node))
      count += static_cast<std::size_t>(range.count);
  }
  return parameters.first(count);
}

}  // namespace

double reference_loss(std::span<const LayerSpec> layers, SampleShape input, int classes,
                      std::span<const double> parameters, std::span<const double> images,
                      std::span<const std::int32_t> labels, std::span<const int> groups) {
  const auto elements = static_cast<std::size_t>(input.elements());
  const std::vector<Node> nodes = make_graph(layers, input, classes);
  const std::span<const double> weights = trained(nodes, parameters);
  double loss = 0;
  std::size_t sample = 0;
  auto label = labels.begin();
  for (int size : groups) {
    std::vector<Map> group;
    for (int i = 0; i < size; ++i) {
      const auto image = images.subspan(sample++ * elements, elements);
      group.push_back({{image.begin(), image.end()}, input});
    }
    for (const Map& logits : logits_of(nodes, group, weights)) {
      for (int y = 0; y < logits.shape.height; ++y) loss += cross_entropy(logits, y, *label++);
    }
  }
  return loss;
}

}  // namespace evenstep::kernels::test
