// From a graph of layers to the objects that compute them, and to a plan of what shares memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/layers.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

/// A tensor that several layers read gets a part of its gradients from each. The reader that is
/// last in the list goes backward first and writes; what the others write apart is added.
struct GradientPart {
  Tensor part;
  Tensor sum;
};

/// A layer, what it reads, and where its parameters lie in the flat vectors.
struct PlacedLayer {
  std::unique_ptr<Layer> layer;
  std::string name;
  std::int64_t forward_flops = 0;  ///< of one sample, see Profile
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool trains = false;  ///< has weights, its own or another layer's
  std::int64_t averages_first = 0;
  std::int64_t averages_count = 0;
  std::vector<Tensor> inputs;
  bool passes_gradients = false;            ///< some input has gradients
  std::vector<GradientPart> parts;          ///< to add after backward_input
  std::vector<MemoryPlan::Region> regions;  ///< that it works on
  bool ends_phase = false;  ///< in backward, all pieces of a chunk reach it before any goes on
};

/// Builds the layers in order; the last one's output is the logits. Some compute several nodes.
std::vector<PlacedLayer> build_layers(Context& context, const std::vector<Node>& nodes,
                                      const Tensor& input);

}  // namespace evenstep::kernels::onednn
