// The models that make_network knows, as lists of layers. To add one: one more list in models.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/layers.h"

namespace evenstep::kernels {

/// A network up to its logits; softmax cross-entropy follows.
struct Model {
  const char* name;
  std::vector<LayerSpec> (*layers)();
  int largest_chunk_f32;   ///< measured, see evenstep-bench-network --chunk
  int largest_chunk_bf16;  ///< likewise
  SampleShape input = {};  ///< as published
  int classes = 10;        ///< likewise
};

/// Throws std::invalid_argument for an unknown name; the message lists the known ones.
const Model& find_model(std::string_view name);

}  // namespace evenstep::kernels
