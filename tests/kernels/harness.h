// Runs whole shares through a network the way a training step does.
#pragma once

#include <dnnl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gpt.h"
#include "kernels/network.h"
#include "tests/kernels/formula.h"

namespace evenstep::kernels::test {

/// Samples [first, first + count) of the formula's data set into the staging buffers.
inline void stage(Network& network, std::int64_t first, int count, int classes) {
  const auto elements =
      static_cast<std::int64_t>(network.images().size()) / network.menu().largest();
  for (std::int64_t i = 0; i < count * elements; ++i) {
    network.images()[static_cast<std::size_t>(i)] = image_value(first * elements + i);
  }
  const auto tokens = static_cast<std::int64_t>(network.tokens().size()) / network.menu().largest();
  for (std::int64_t i = 0; i < count * tokens; ++i)
    network.tokens()[static_cast<std::size_t>(i)] = token_of(first * tokens + i, classes);
  for (std::int64_t i = 0; i < count * network.targets(); ++i)
    network.labels()[static_cast<std::size_t>(i)] =
        label_of(first * network.targets() + i, classes);
  for (int i = 0; i < count; ++i) {
    network.sample_keys()[static_cast<std::size_t>(i)] = static_cast<std::uint64_t>(first + i);
  }
}

/// Forward and backward of samples [0, sum of chunks) cut as given.
inline LossSums run_chunks(Network& network, std::span<const int> chunks, int classes,
                           std::span<float> gradients, const GradientReady* ready = nullptr) {
  LossSums sums;
  std::int64_t done = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    stage(network, done, chunks[i], classes);
    const LossSums chunk = network.forward(chunks[i]);
    sums.loss += chunk.loss;
    sums.correct += chunk.correct;
    network.backward(chunks[i], {i == 0, i + 1 == chunks.size()}, gradients, ready);
    done += chunks[i];
  }
  return sums;
}

/// The language model of the tests that compare with PyTorch, and of others.
inline constexpr GptOptions small_gpt{
    .layers = 2, .heads = 4, .width = 32, .context = 16, .vocabulary = 50};

/// `options.model`, which may be "gpt": the small one.
inline std::unique_ptr<Network> make_any_network(const NetworkOptions& options) {
  return options.model == "gpt" ? make_gpt(small_gpt, options) : make_network(options);
}

/// Whether oneDNN may use all instructions of this set (ONEDNN_MAX_CPU_ISA counts).
inline bool has(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

/// The types that networks can be built for on this processor.
inline std::vector<Dtype> dtypes() {
  if (has(dnnl_cpu_isa_avx512_core)) return {Dtype::f32, Dtype::bf16};
  return {Dtype::f32};
}

/// A share cut as the menu has it.
inline std::vector<int> cut(const ChunkMenu& menu, std::int64_t share) {
  std::vector<int> chunks;
  menu.for_each_chunk(share, [&](int size) { chunks.push_back(size); });
  return chunks;
}

/// The groups that batch norm takes of a share so cut.
inline std::vector<int> groups_of(const Network& network, std::span<const int> chunks) {
  std::vector<int> groups;
  for (int chunk : chunks) {
    const int group = std::min(chunk, network.granule());
    groups.insert(groups.end(), static_cast<std::size_t>(chunk / group), group);
  }
  return groups;
}

inline std::vector<float> formula_parameters(const Network& network) {
  std::vector<float> parameters(static_cast<std::size_t>(network.parameter_count()));
  fill_parameters(network.parameters(), parameters);
  return parameters;
}

/// A network and the formula's parameters, which it reads where they are.
struct LoadedNetwork {
  std::unique_ptr<Network> network;
  std::vector<float> parameters;
  Network& operator*() const { return *network; }
  Network* operator->() const { return network.get(); }
};

inline LoadedNetwork load_formula_parameters(std::unique_ptr<Network> network) {
  std::vector<float> parameters = formula_parameters(*network);
  network->load_parameters(parameters);
  return {std::move(network), std::move(parameters)};
}

}  // namespace evenstep::kernels::test
