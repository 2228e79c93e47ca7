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

Map multiply(const Map& in, const Node& node, const Parameters& p) {
  return fill(node.output_shape, [&](int o, int, int) {
    const std::size_t row = static_cast<std::size_t>(o) * in.values.size();
    double sum = p.bias.empty() ? 0 : p.bias[static_cast<std::size_t>(o)];
    for (std::size_t i = 0; i < in.values.size(); ++i) sum += p.weight[row + i] * in.values[i];
    return sum;
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
    case LayerKind::add:
      return fill(in.shape,
                  [&](int c, int y, int x) { return in.at(c, y, x) + inputs[1]->at(c, y, x); });
    case LayerKind::relu:
      break;
  }
  return fill(in.shape, [&](int c, int y, int x) { return std::max(in.at(c, y, x), 0.0); });
}

double cross_entropy(const Values& logits, std::size_t label) {
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - logits[label]);
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

Values logits_of(std::span<const Node> nodes, const Map& image,
                 std::span<const double> parameters) {
  std::vector<Map> maps;
  for (const Node& node : nodes) {
    std::vector<const Map*> inputs;
    for (int i : node.inputs)
      inputs.push_back(i == Node::network_input ? &image : &maps[static_cast<std::size_t>(i)]);
    maps.push_back(apply(node, inputs, take_parameters(node, parameters)));
  }
  return maps.back().values;
}

}  // namespace

double reference_loss(std::span<const LayerSpec> layers, SampleShape input, int classes,
                      std::span<const double> parameters, std::span<const double> images,
                      std::span<const std::int32_t> labels) {
  const auto elements = static_cast<std::size_t>(input.elements());
  const std::vector<Node> nodes = make_graph(layers, input, classes);
  double loss = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto image = images.subspan(i * elements, elements);
    const Values logits = logits_of(nodes, {{image.begin(), image.end()}, input}, parameters);
    loss += cross_entropy(logits, static_cast<std::size_t>(labels[i]));
  }
  return loss;
}

}  // namespace evenstep::kernels::test
