#include "kernels/onednn/builder.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/onednn/add.h"
#include "kernels/onednn/convolution.h"
#include "kernels/onednn/linear.h"
#include "kernels/onednn/max_pooling.h"
#include "kernels/onednn/pooled_convolution.h"
#include "kernels/onednn/relu.h"

namespace evenstep::kernels::onednn {
namespace {

class Builder {
 public:
  Builder(Context& context, const std::vector<Node>& nodes, const Tensor& input);
  std::vector<PlacedLayer> build();

 private:
  /// A node reads a tensor as its input number `input`.
  struct Reading {
    std::size_t node;
    std::size_t input;
    bool operator==(const Reading&) const = default;
  };
  /// What is known of a node's output.
  struct Output {
    Tensor tensor;
    std::size_t layer = 0;
    std::vector<Reading> readers;  // in the order of the list
  };

  void add_layer(std::size_t node);
  std::unique_ptr<Layer> make_layer(std::size_t node);
  std::unique_ptr<Layer> make_add(std::size_t node);
  Tensor read(Reading reading);
  bool may_overwrite(int node) const;
  bool may_share_gradients(int sole, Reading reading) const;
  bool pools(std::size_t node) const;
  void note_uses();

  Output& output(int node) { return outputs_[static_cast<std::size_t>(node)]; }
  const Output& output(int node) const { return outputs_[static_cast<std::size_t>(node)]; }

  Context& context_;
  const std::vector<Node>& nodes_;
  Tensor input_;
  std::vector<Output> outputs_;  // by node
  std::vector<PlacedLayer> layers_;
  std::size_t done_ = 0;  // nodes that have a layer
};

Builder::Builder(Context& context, const std::vector<Node>& nodes, const Tensor& input)
    : context_(context), nodes_(nodes), input_(input), outputs_(nodes.size()) {
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (std::size_t i = 0; i < nodes[n].inputs.size(); ++i) {
      if (nodes[n].inputs[i] != Node::network_input)
        output(nodes[n].inputs[i]).readers.push_back({n, i});
    }
  }
}

std::vector<PlacedLayer> Builder::build() {
  while (done_ < nodes_.size()) add_layer(done_);
  std::int64_t first = 0;
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layers_[l].first = first;
    first += layers_[l].count;
  }
  note_uses();
  return std::move(layers_);
}

/// The tensor that a node reads, as the layer being built sees it: where others read it too, with
/// gradients of its own, unless it is the one that writes first.
Tensor Builder::read(Reading reading) {
  PlacedLayer& placed = layers_.back();
  const int from = nodes_[reading.node].inputs[reading.input];
  Tensor tensor = from == Node::network_input ? input_ : output(from).tensor;
  if (tensor.has_gradients() && reading != output(from).readers.back()) {
    const Tensor sum = tensor;
    tensor.gradients.clear();
    tensor.gradients_region = context_.plan.new_region();
    for (const dnnl::memory& gradients : sum.gradients)
      tensor.add_gradients(context_.plan, gradients.get_desc());
    placed.parts.push_back({tensor, sum});
  }
  placed.inputs.push_back(tensor);
  placed.passes_gradients = placed.passes_gradients || tensor.has_gradients();
  return tensor;
}

/// Adds a layer for the node, and perhaps for those that follow.
void Builder::add_layer(std::size_t node) {
  layers_.emplace_back();
  std::unique_ptr<Layer> layer = make_layer(node);
  PlacedLayer& placed = layers_.back();
  placed.layer = std::move(layer);
  for (; node <= done_; ++node) {
    for (const ParameterRange& range : parameter_ranges(nodes_[node])) placed.count += range.count;
    placed.name += (placed.name.empty() ? "" : "+") + nodes_[node].spec.name;
    placed.forward_flops += forward_flops(nodes_[node]);
  }
  outputs_[done_].tensor = placed.layer->output();
  outputs_[done_].layer = layers_.size() - 1;
  ++done_;
}

std::unique_ptr<Layer> Builder::make_layer(std::size_t n) {
  const Node& node = nodes_[n];
  if (node.spec.kind == LayerKind::add) return make_add(n);
  const Tensor input = read({n, 0});
  switch (node.spec.kind) {
    case LayerKind::convolution:
      if (pools(n) && PooledConvolution::suits(context_, input, node, nodes_[n + 1])) {
        done_ = n + 1;
        return std::make_unique<PooledConvolution>(context_, input, node);
      }
      return std::make_unique<Convolution>(context_, input, node);
    case LayerKind::linear:
      return std::make_unique<Linear>(context_, input, node.output_shape.channels,
                                      n + 1 == nodes_.size());
    case LayerKind::max_pooling:
      return std::make_unique<MaxPooling>(context_, input, input.has_gradients());
    case LayerKind::relu:
    case LayerKind::add:
      break;
  }
  if (!may_overwrite(node.inputs[0]))
    throw std::logic_error(fmt::format("{}: what it reads is needed elsewhere", node.spec.name));
  return std::make_unique<Relu>(input);
}

/// Whether nothing but the max pooling behind it reads the node.
bool Builder::pools(std::size_t node) const {
  return outputs_[node].readers == std::vector<Reading>{{node + 1, 0}} &&
         nodes_[node + 1].spec.kind == LayerKind::max_pooling;
}

std::unique_ptr<Layer> Builder::make_add(std::size_t n) {
  const std::vector<int>& inputs = nodes_[n].inputs;
  const std::size_t first = may_overwrite(inputs[0]) ? 0 : 1;
  const Tensor one = read({n, first});
  const Tensor other = read({n, 1 - first});
  const bool in_place =
      may_overwrite(inputs[first]) && (one.has_gradients() || !other.has_gradients());
  if (in_place && other.has_gradients() && may_share_gradients(inputs[first], {n, 1 - first}))
    context_.plan.share(one.gradients_region, other.gradients_region);
  return std::make_unique<Add>(context_, one, other, in_place);
}

/// Whether a layer that reads this node's output may write its own over it.
bool Builder::may_overwrite(int node) const {
  if (node == Node::network_input || output(node).readers.size() > 1) return false;
  return !layers_[output(node).layer].layer->needs_output();
}

/// Whether two inputs of a sum may have one memory for their gradients: `sole`, which nobody else
/// reads, and another. Who comes first in backward must leave them as they are for the second.
bool Builder::may_share_gradients(int sole, Reading reading) const {
  const Output& other = output(nodes_[reading.node].inputs[reading.input]);
  const auto& readers = other.readers;
  if (readers.back() != reading) return true;  // written apart, and added at once
  const std::size_t sole_layer = output(sole).layer;
  const std::size_t other_layer = other.layer;
  const std::size_t earlier = std::max(sole_layer, other_layer);  // in backward
  if (layers_[earlier].layer->alters_gradients()) return false;
  if (readers.size() == 1) return true;
  // Other readers add their part when their turn comes: it must come after `sole` has read.
  const std::size_t next = readers[readers.size() - 2].node;
  return sole_layer > other_layer && next < done_ && outputs_[next].layer < sole_layer;
}

/// Tells the memory plan when each tensor matters. Layer l goes forward at time l and backward at
/// time 2n - l; between them, at time n, comes the loss.
void Builder::note_uses() {
  MemoryPlan& plan = context_.plan;
  const int n = static_cast<int>(layers_.size());
  for (int l = 0; l < n; ++l) {
    const PlacedLayer& placed = layers_[static_cast<std::size_t>(l)];
    const int backward = 2 * n - l;
    const auto note = [&](const Tensor& tensor, bool needed) {
      if (tensor.values_region != input_.values_region) {
        plan.use(tensor.values_region, l);
        if (needed) plan.use(tensor.values_region, backward);
      }
      if (tensor.has_gradients()) plan.use(tensor.gradients_region, backward);
    };
    note(placed.layer->output(), placed.layer->needs_output());
    for (const Tensor& input : placed.inputs) note(input, placed.layer->needs_input());
  }
  plan.use(layers_.back().layer->output().values_region, n);
  plan.use(layers_.back().layer->output().gradients_region, n);
}

}  // namespace

std::vector<PlacedLayer> build_layers(Context& context, const std::vector<Node>& nodes,
                                      const Tensor& input) {
  return Builder(context, nodes, input).build();
}

}  // namespace evenstep::kernels::onednn
