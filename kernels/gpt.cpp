#include "kernels/gpt.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace evenstep::kernels {
namespace {

using enum LayerKind;

constexpr double deviation = 0.02;
constexpr int usual_chunk = 2;  // measured: large enough for fast products, small enough for caches

/// Appends layers that read each other in turn.
struct Sequence {
  std::vector<LayerSpec> layers;
  double residual_deviation;

  void norm(const std::string& name, std::vector<std::string> from = {}) {
    layers.push_back({.kind = layer_norm, .name = name, .from = std::move(from)});
  }
  void dense(const std::string& name, int outputs, double start) {
    layers.push_back({.kind = token_linear,
                      .name = name,
                      .outputs = outputs,
                      .start = Start::normal,
                      .deviation = start});
  }
  void join(const std::string& name, const std::string& with) {
    layers.push_back({.kind = add, .name = name, .from = {layers.back().name, with}});
  }

  /// Reads `input`; returns the name of its output.
  std::string block(const std::string& name, const std::string& input, int width, int heads) {
    norm(name + ".norm1", {input});
    dense(name + ".qkv", 3 * width, deviation);
    layers.push_back({.kind = attention, .name = name + ".attention", .heads = heads});
    dense(name + ".projection", width, residual_deviation);
    join(name + ".join1", input);
    norm(name + ".norm2");
    dense(name + ".wide", 4 * width, deviation);
    layers.push_back({.kind = gelu, .name = name + ".gelu"});
    dense(name + ".narrow", width, residual_deviation);
    join(name + ".join2", name + ".join1");
    return name + ".join2";
  }
};

}  // namespace

std::vector<LayerSpec> gpt_layers(const GptOptions& gpt) {
  if (gpt.layers < 1 || gpt.heads < 1 || gpt.width < 1 || gpt.width % gpt.heads != 0) {
    throw std::invalid_argument(fmt::format(
        "{} layers of width {} with {} heads: the width must be a multiple of the heads",
        gpt.layers, gpt.width, gpt.heads));
  }
  Sequence sequence{{}, deviation / std::sqrt(2.0 * gpt.layers)};
  sequence.layers.push_back({.kind = embedding,
                             .name = "embedding",
                             .outputs = gpt.width,
                             .start = Start::normal,
                             .deviation = deviation});
  std::string last = "embedding";
  for (int i = 0; i < gpt.layers; ++i)
    last = sequence.block(fmt::format("block{}", i), last, gpt.width, gpt.heads);
  sequence.norm("norm");
  sequence.layers.push_back({.kind = tied_linear, .name = "logits", .weights_of = "embedding"});
  return std::move(sequence.layers);
}

std::unique_ptr<Network> make_gpt(const GptOptions& gpt, NetworkOptions options) {
  options.input = {1, gpt.context, 1};
  options.classes = gpt.vocabulary;
  if (options.largest_chunk == 0) options.largest_chunk = usual_chunk;
  return make_network(gpt_layers(gpt), options);
}

}  // namespace evenstep::kernels
