#include "kernels/onednn/builder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "kernels/onednn/add.h"
#include "kernels/onednn/attention.h"
#include "kernels/onednn/batch_norm.h"
#include "kernels/onednn/concat.h"
#include "kernels/onednn/convolution.h"
#include "kernels/onednn/dropout.h"
#include "kernels/onednn/embedding.h"
#include "kernels/onednn/gelu.h"
#include "kernels/onednn/layer_norm.h"
#include "kernels/onednn/linear.h"
#include "kernels/onednn/local_response_norm.h"
#include "kernels/onednn/max_pooling.h"
#include "kernels/onednn/pooled_convolution.h"
#include "kernels/onednn/pooling.h"
#include "kernels/onednn/relu.h"
#include "kernels/onednn/token_linear.h"
#include "kernels/onednn/winograd_convolution.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr int most_phases = 8;  // of backward

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
  std::unique_ptr<Layer> make_convolution(std::size_t node);
  std::unique_ptr<Layer> make_linear(std::size_t node);
  std::unique_ptr<Layer> make_max_pooling(std::size_t node);
  std::unique_ptr<Layer> make_batch_norm(std::size_t node);
  std::unique_ptr<Layer> make_add(std::size_t node);
  std::unique_ptr<Layer> make_concat(std::size_t node);
  std::unique_ptr<Layer> make_embedding(std::size_t node);
  std::unique_ptr<Layer> make_layer_norm(std::size_t node);
  std::unique_ptr<Layer> make_token_linear(std::size_t node);
  const Embedding* embedding(const Node& node) const;
  Tensor read(Reading reading);
  Tensor note_input(const Tensor& tensor);
  bool may_overwrite(int node) const;
  bool may_share_gradients(int sole, Reading reading) const;
  bool is_followed_by(LayerKind kind, std::size_t node) const;
  bool has_zeros(int node) const;
  void place_parameters();
  void note_uses();
  void cut_phases();

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
  place_parameters();
  note_uses();
  cut_phases();
  return std::move(layers_);
}

/// In the order in which backward fills gradients; running averages come last.
void Builder::place_parameters() {
  std::int64_t first = 0;
  for (std::size_t l = layers_.size(); l-- > 0;)
    layers_[l].first = std::exchange(first, first + layers_[l].count);
  for (std::size_t l = layers_.size(); l-- > 0;)
    layers_[l].averages_first = std::exchange(first, first + layers_[l].averages_count);
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
    tensor.gradient_bytes.clear();
    tensor.gradients_region = context_.plan.new_region();
    for (const dnnl::memory& gradients : sum.gradients)
      tensor.add_gradients(context_.plan, gradients.get_desc());
    placed.parts.push_back({tensor, sum});
  }
  return note_input(tensor);
}

Tensor Builder::note_input(const Tensor& tensor) {
  PlacedLayer& placed = layers_.back();
  placed.inputs.push_back(tensor);
  placed.passes_gradients = placed.passes_gradients || tensor.has_gradients();
  return tensor;
}

/// Adds a layer for the node, and perhaps for those that follow.
void Builder::add_layer(std::size_t node) {
  layers_.emplace_back();
  const MemoryPlan::Region first = context_.plan.regions();
  std::unique_ptr<Layer> layer = make_layer(node);
  PlacedLayer& placed = layers_.back();
  placed.layer = std::move(layer);
  for (MemoryPlan::Region r = first; r < context_.plan.regions(); ++r) placed.regions.push_back(r);
  const auto works_on = [&](const Tensor& tensor) {
    placed.regions.push_back(tensor.values_region);
    if (tensor.has_gradients()) placed.regions.push_back(tensor.gradients_region);
  };
  works_on(placed.layer->output());
  for (const Tensor& input : placed.inputs) works_on(input);
  for (const GradientPart& part : placed.parts) works_on(part.sum);
  for (; node <= done_; ++node) {
    for (const ParameterRange& range : parameter_ranges(nodes_[node])) placed.count += range.count;
    for (const ParameterRange& range : average_ranges(nodes_[node]))
      placed.averages_count += range.count;
    placed.trains =
        placed.trains || placed.count > 0 || nodes_[node].spec.kind == LayerKind::tied_linear;
    placed.name += (placed.name.empty() ? "" : "+") + nodes_[node].spec.name;
    placed.forward_flops += forward_flops(nodes_[node]);
  }
  outputs_[done_].tensor = placed.layer->output();
  outputs_[done_].layer = layers_.size() - 1;
  ++done_;
}

std::unique_ptr<Layer> Builder::make_layer(std::size_t n) {
  const Node& node = nodes_[n];
  switch (node.spec.kind) {
    case LayerKind::convolution:
      return make_convolution(n);
    case LayerKind::linear:
      return make_linear(n);
    case LayerKind::max_pooling:
      return make_max_pooling(n);
    case LayerKind::average_pooling:
      return std::make_unique<Pooling>(context_, read({n, 0}), node);
    case LayerKind::batch_norm:
      return make_batch_norm(n);
    case LayerKind::local_response_norm:
      return std::make_unique<LocalResponseNorm>(context_, read({n, 0}), node.spec);
    case LayerKind::dropout:
      return std::make_unique<Dropout>(context_, read({n, 0}), node.spec.rate,
                                       static_cast<std::uint32_t>(n),
                                       may_overwrite(node.inputs[0]));
    case LayerKind::add:
      return make_add(n);
    case LayerKind::concat:
      return make_concat(n);
    case LayerKind::embedding:
      return make_embedding(n);
    case LayerKind::layer_norm:
      return make_layer_norm(n);
    case LayerKind::token_linear:
    case LayerKind::tied_linear:
      return make_token_linear(n);
    case LayerKind::attention:
      return std::make_unique<Attention>(context_, read({n, 0}), node.spec.heads);
    case LayerKind::gelu:
    case LayerKind::relu:
      break;
  }
  if (!may_overwrite(node.inputs[0]))
    throw std::logic_error(fmt::format("{}: what it reads is needed elsewhere", node.spec.name));
  if (node.spec.kind == LayerKind::gelu) return std::make_unique<Gelu>(context_, read({n, 0}));
  return std::make_unique<Relu>(read({n, 0}));
}

std::unique_ptr<Layer> Builder::make_convolution(std::size_t n) {
  const Node& node = nodes_[n];
  const Tensor input = read({n, 0});
  if (is_followed_by(LayerKind::max_pooling, n)) {
    if (const auto shape = PooledConvolution::suitable(context_, input, node, nodes_[n + 1])) {
      done_ = n + 1;
      return std::make_unique<PooledConvolution>(context_, input, node, *shape);
    }
  }
  const auto shape = Winograd::shape_for(context_, input, node);
  if (shape && !node.spec.bias)
    return std::make_unique<WinogradConvolution>(context_, input, *shape);
  return std::make_unique<Convolution>(context_, input, node);
}

std::unique_ptr<Layer> Builder::make_linear(std::size_t n) {
  const Node& node = nodes_[n];
  return std::make_unique<Linear>(
      context_, read({n, 0}),
      Linear::Options{.outputs = node.output_shape.channels,
                      .logits = n + 1 == nodes_.size(),
                      .zeros_in = has_zeros(node.inputs[0]),
                      .background_in = node.inputs[0] == Node::network_input,
                      .zeros_in_backward = is_followed_by(LayerKind::relu, n)});
}

/// Whether many values of a node's output are zero: it is a ReLU's, perhaps pooled or dropped out.
bool Builder::has_zeros(int n) const {
  if (n == Node::network_input) return false;
  const Node& node = nodes_[static_cast<std::size_t>(n)];
  if (node.spec.kind == LayerKind::dropout || node.spec.kind == LayerKind::max_pooling)
    return has_zeros(node.inputs[0]);
  return node.spec.kind == LayerKind::relu;
}

std::unique_ptr<Layer> Builder::make_max_pooling(std::size_t n) {
  const Tensor input = read({n, 0});
  if (nodes_[n].spec.window == square(2, 2))
    return std::make_unique<MaxPooling>(context_, input, input.has_gradients());
  return std::make_unique<Pooling>(context_, input, nodes_[n]);
}

/// Takes the residual sum and the ReLU behind it along.
std::unique_ptr<Layer> Builder::make_batch_norm(std::size_t n) {
  const Tensor input = read({n, 0});
  BatchNorm::Options options{.group = context_.granule, .epsilon = nodes_[n].spec.epsilon};
  if (is_followed_by(LayerKind::add, n)) {
    const std::vector<int>& inputs = nodes_[n + 1].inputs;
    options.residual = read({n + 1, inputs[0] == static_cast<int>(n) ? 1U : 0U});
    done_ = n + 1;
  }
  if (is_followed_by(LayerKind::relu, done_)) {
    options.relu = true;
    ++done_;
  }
  auto layer = std::make_unique<BatchNorm>(context_, input, options);
  // Backward leaves the output's gradients as they are to be for the residual; where there is none,
  // those of the input may take their place.
  const Tensor& heir = options.residual ? *options.residual : input;
  if (heir.has_gradients())
    context_.plan.share(layer->output().gradients_region, heir.gradients_region);
  return layer;
}

std::unique_ptr<Layer> Builder::make_concat(std::size_t n) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < nodes_[n].inputs.size(); ++i) inputs.push_back(read({n, i}));
  return std::make_unique<Concat>(context_, std::move(inputs));
}

std::unique_ptr<Layer> Builder::make_embedding(std::size_t n) {
  const bool tied = std::ranges::any_of(nodes_, [&](const Node& node) {
    return node.spec.kind == LayerKind::tied_linear && node.weights_of == static_cast<int>(n);
  });
  return std::make_unique<Embedding>(context_, nodes_[n], tied);
}

/// Of the layer whose weights a tied one has; null for others.
const Embedding* Builder::embedding(const Node& node) const {
  if (node.spec.kind != LayerKind::tied_linear) return nullptr;
  const std::size_t layer = output(node.weights_of).layer;
  return dynamic_cast<const Embedding*>(layers_[layer].layer.get());
}

/// It adds to the gradients that the input's later readers left, in backward, without a part apart.
std::unique_ptr<Layer> Builder::make_layer_norm(std::size_t n) {
  const Node& node = nodes_[n];
  const Output& input = output(node.inputs[0]);
  const bool adds = input.readers.back() != Reading{n, 0};
  return std::make_unique<LayerNorm>(context_, note_input(input.tensor), node.spec.epsilon, adds);
}

/// Takes the residual sum behind it along.
std::unique_ptr<Layer> Builder::make_token_linear(std::size_t n) {
  const Node& node = nodes_[n];
  const Tensor input = read({n, 0});
  TokenLinear::Options options{.outputs = node.output_shape.channels,
                               .logits = n + 1 == nodes_.size(),
                               .tied = embedding(node)};
  if (is_followed_by(LayerKind::add, n)) {
    const std::vector<int>& inputs = nodes_[n + 1].inputs;
    options.residual = read({n + 1, inputs[0] == static_cast<int>(n) ? 1U : 0U});
    done_ = n + 1;
  }
  const std::optional<Tensor> residual = options.residual;
  auto layer = std::make_unique<TokenLinear>(context_, input, std::move(options));
  if (residual && residual->has_gradients())
    context_.plan.share(layer->output().gradients_region, residual->gradients_region);
  return layer;
}

/// Whether nothing reads the node but the next one, which is of this kind.
bool Builder::is_followed_by(LayerKind kind, std::size_t node) const {
  const auto& readers = outputs_[node].readers;
  return readers.size() == 1 && readers[0].node == node + 1 && nodes_[node + 1].spec.kind == kind;
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

/// Backward is cut where many gradients become final at once: communication has them early, and
/// between two cuts a piece stays in the cache.
void Builder::cut_phases() {
  std::int64_t all = 0;
  for (const PlacedLayer& placed : layers_) all += placed.count;
  const int n = static_cast<int>(layers_.size());
  context_.plan.begin_phase(n);
  std::int64_t gradients = 0;
  for (int l = n - 1; l >= 0; --l) {
    PlacedLayer& placed = layers_[static_cast<std::size_t>(l)];
    gradients += placed.count;
    placed.ends_phase = gradients * most_phases >= all || l == 0;
    if (!placed.ends_phase) continue;
    context_.plan.begin_phase(2 * n - l + 1);
    gradients = 0;
  }
}

}  // namespace

std::vector<PlacedLayer> build_layers(Context& context, const std::vector<Node>& nodes,
                                      const Tensor& input) {
  return Builder(context, nodes, input).build();
}

}  // namespace evenstep::kernels::onednn
