// The models as lists of layers: what each layer is, not how a backend computes it.
//
// To add a model: one more list in models.cpp.
// To add a layer: (1) a LayerKind here; (2) its output shape and parameters in models.cpp
// (output_shape, append_parameters); (3) a file pair in kernels/onednn with a class derived from
// Layer (kernels/onednn/layer.h): forward, and backward_parameters and/or backward_input;
// (4) one case in make_layer (kernels/onednn/network.cpp); (5) its model in
// tests/kernels/gradients_test.cpp, which compares every gradient with central differences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/network.h"

namespace evenstep::kernels {

enum class LayerKind {
  convolution,  ///< 3x3, stride 1, padding 1, with bias: channels x h x w -> outputs x h x w
  max_pooling,  ///< 2x2, stride 2; an odd last row or column is dropped
  relu,
  linear,  ///< with bias; takes a sample's elements in channel, height, width order
};

struct LayerSpec {
  LayerKind kind;
  const char* name;  ///< of its parameters, as in "conv1.weight"; unused where there are none
  int outputs = 0;   ///< output channels or features; 0: the number of classes
};

/// A network up to its logits; softmax cross-entropy follows.
struct Model {
  const char* name;
  std::span<const LayerSpec> layers;
  int largest_chunk_f32;   ///< measured, see evenstep-bench-network --chunk
  int largest_chunk_bf16;  ///< likewise
};

/// Throws std::invalid_argument for an unknown name; the message lists the known ones.
const Model& find_model(std::string_view name);

/// The shape of a layer's output for one sample. Throws std::invalid_argument where the layer
/// cannot take `input`.
SampleShape output_shape(const LayerSpec& layer, SampleShape input, int classes);

/// All parameters in the order in which backward fills their gradients: the last layer first,
/// within a layer the weight, then the bias.
std::vector<ParameterRange> parameter_ranges(std::span<const LayerSpec> layers, SampleShape input,
                                             int classes);

/// Builds a network from any list of layers; make_network is this on a model's list. The list may
/// go away afterwards. Throws std::invalid_argument as make_network does.
std::unique_ptr<Network> make_network(std::span<const LayerSpec> layers,
                                      const NetworkOptions& options);

}  // namespace evenstep::kernels
