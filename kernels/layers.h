// A network as a static list of layers: what each layer is, not how a backend computes it. A layer
// reads the one before it, or those it names.
//
// To add a layer: (1) a LayerKind here; (2) its output shape and parameters in layers.cpp
// (output_shape, append_parameters); (3) a file pair in kernels/onednn with a class derived from
// Layer (kernels/onednn/layer.h): forward, and backward_parameters and/or backward_input;
// (4) one case in make_layer (kernels/onednn/builder.cpp); (5) its model in
// tests/kernels/gradients_test.cpp, which compares every gradient with central differences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/network.h"

namespace evenstep::kernels {

enum class LayerKind {
  convolution,
  max_pooling,
  average_pooling,  ///< padding counts as zeros (PyTorch's and Caffe's rule)
  batch_norm,
  local_response_norm,
  dropout,
  relu,
  linear,  ///< takes a sample's elements in channel, height, width order
  add,     ///< the sum of two tensors of one shape: a residual join
  concat,  ///< the channels of tensors of one height and width, one behind the other
  // Of sequences: a token is a pixel of an image one pixel wide, and its features are channels.
  embedding,     ///< of the network's tokens, plus that of their places
  layer_norm,    ///< over each token's features
  gelu,          ///< in its tanh form
  token_linear,  ///< the same for each token
  tied_linear,   ///< likewise, by an embedding's weights, without bias
  attention,     ///< causal; each head's queries first, then all keys, then all values
};

/// What convolutions and pools move over their input.
struct Window {
  int height = 1;
  int width = 1;
  int stride = 1;
  int pad_height = 0;  ///< zeros (for max pooling: nothing) on either side
  int pad_width = 0;
  bool overhang = false;  ///< the last window may hang over the edge; else a rest is left out
  bool operator==(const Window&) const = default;
};

/// A square window; `pad` on every side.
constexpr Window square(int size, int stride = 1, int pad = 0) {
  return {size, size, stride, pad, pad};
}

/// A pool over the whole image, whatever its size.
constexpr Window whole_image{0, 0};

/// How a layer's weights start; biases at zero, but for `fan_in`.
enum class Start {
  fan_in,  ///< weights and biases uniform in +-1/sqrt(inputs of an output): PyTorch's default
  he,      ///< normal, deviation sqrt(2 / inputs of an output): He et al. 2015
  normal,  ///< normal, deviation as given
};

struct LayerSpec {
  LayerKind kind;
  std::string name;  ///< of its parameters, as in "conv1.weight", and for `from` of other layers
  int outputs = 0;   ///< output channels or features; 0: the number of classes
  Window window = {};
  bool bias = true;                    ///< of a convolution; linear layers always have one
  std::vector<std::string> from = {};  ///< the layers it reads; none: the one before it
  Start start = Start::fan_in;
  double deviation = 0;         ///< of Start::normal
  double epsilon = 1e-5;        ///< of batch_norm and layer_norm
  double rate = 0;              ///< of dropout: how much is dropped
  double alpha = 0;             ///< of local_response_norm, whose window is a square
  double beta = 0;              ///< of local_response_norm
  bool across_channels = true;  ///< of local_response_norm
  int heads = 1;                ///< of attention
  std::string weights_of = {};  ///< the embedding whose weights a tied_linear has
};

/// A layer in its place in a network.
struct Node {
  static constexpr int network_input = -1;

  LayerSpec spec;
  std::vector<int> inputs;  ///< earlier nodes, or network_input
  std::vector<SampleShape> input_shapes;
  SampleShape output_shape;
  int classes = 0;     ///< of the network; for sequences, the vocabulary
  int weights_of = 0;  ///< the embedding of a tied_linear
};

/// Finds each layer's inputs and shapes. Throws std::invalid_argument where a layer names one that
/// does not come before it, or cannot take what it reads, with the values and what would do.
std::vector<Node> make_graph(std::span<const LayerSpec> layers, SampleShape input, int classes);

/// A node's trained parameters, the weight before the bias; positions count from `first`.
std::vector<ParameterRange> parameter_ranges(const Node& node, std::int64_t first = 0);
/// A node's running averages: mean and variance of batch norm.
std::vector<ParameterRange> average_ranges(const Node& node, std::int64_t first = 0);

/// Two for each multiplication of a weight with a value, in forward of one sample; in attention,
/// of values with each other, masked or not.
std::int64_t forward_flops(const Node& node);

/// All parameters in the order in which backward fills their gradients: the last layer first; then
/// all running averages, likewise.
std::vector<ParameterRange> parameter_ranges(std::span<const LayerSpec> layers, SampleShape input,
                                             int classes);

/// Builds a network from any list of layers; make_network is this on a model's list. The list may
/// go away afterwards. Throws std::invalid_argument as make_network does.
std::unique_ptr<Network> make_network(std::span<const LayerSpec> layers,
                                      const NetworkOptions& options);

}  // namespace evenstep::kernels
