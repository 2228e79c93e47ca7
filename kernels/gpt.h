// The language model of GPT-2 (Radford et al. 2019): pre-norm blocks, learned places, and one table
// for the embedding of tokens and the logits.
#pragma once

#include <memory>
#include <vector>

#include "kernels/layers.h"

namespace evenstep::kernels {

struct GptOptions {
  int layers = 4;
  int heads = 4;
  int width = 256;
  int context = 128;     ///< tokens of a sample
  int vocabulary = 256;  ///< as many as a byte has values
};

/// Weights start as published: normal with a deviation of 0.02, of what a block adds to the
/// residual divided by sqrt(2 layers), biases 0. Throws std::invalid_argument where the width
/// cannot be shared among the heads, with both.
std::vector<LayerSpec> gpt_layers(const GptOptions& gpt);

/// A sample is `context` tokens, and for each of them the next one as its label. Of `options`, what
/// the model does not settle counts.
std::unique_ptr<Network> make_gpt(const GptOptions& gpt, NetworkOptions options);

}  // namespace evenstep::kernels
