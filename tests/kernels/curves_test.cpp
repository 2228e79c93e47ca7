// Each model's losses over 20 steps of SGD with momentum against PyTorch's in fp64
// (make_curves.py), from the same weights and samples. PyTorch's own fp32 is within 5e-5 of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "evenstep/optimizer.h"
#include "kernels/models.h"
#include "tests/kernels/harness.h"

namespace evenstep::kernels::test {
namespace {

using Json = nlohmann::json;

NetworkOptions options_of(const Json& record) {
  NetworkOptions options;
  options.model = record["model"];
  options.input = {record["image"][0], record["image"][1], record["image"][2]};
  options.classes = record["classes"];
  options.largest_chunk =
      static_cast<int>(std::min(16U, std::bit_floor(record["batch"].get<unsigned>())));
  return options;
}

/// The model without dropout, which PyTorch draws otherwise.
std::vector<LayerSpec> layers_of(const std::string& model) {
  std::vector<LayerSpec> layers = find_model(model).layers();
  std::erase_if(layers, [](const LayerSpec& layer) { return layer.kind == LayerKind::dropout; });
  return layers;
}

/// As make_curves.py has it: small residual branches, and fewer dead ReLUs.
void tame(const std::vector<LayerSpec>& layers, float shift, const Network& network,
          std::span<float> parameters) {
  std::set<std::string> norms;
  std::set<std::string> closing;  // of residual branches
  for (const LayerSpec& layer : layers) {
    if (layer.kind == LayerKind::batch_norm) norms.insert(layer.name);
    if (layer.kind == LayerKind::add) closing.insert(layer.from[0]);
  }
  for (const ParameterRange& range : network.parameters()) {
    const std::string layer = range.name.substr(0, range.name.rfind('.'));
    if (!norms.contains(layer)) continue;
    const auto values = parameters.subspan(static_cast<std::size_t>(range.first),
                                           static_cast<std::size_t>(range.count));
    if (closing.contains(layer) && range.name.ends_with(".weight")) {
      for (float& value : values) value /= 8;
    } else if (!closing.contains(layer) && range.name.ends_with(".bias")) {
      for (float& value : values) value += shift;
    }
  }
}

/// Forward and backward of a batch: its mean loss. `gradients` become means, too.
double run_batch(Network& network, const Json& record, std::int64_t first,
                 std::span<float> gradients) {
  const std::int64_t batch = record["batch"];
  double loss = 0;
  std::int64_t done = 0;
  network.menu().for_each_chunk(batch, [&](int size) {
    stage(network, first + done, size, record["classes"]);
    loss += network.forward(size).loss;
    network.backward(size, {done == 0, done + size == batch}, gradients, nullptr);
    done += size;
  });
  for (float& gradient : gradients) gradient /= static_cast<float>(batch);
  return loss / static_cast<double>(batch);
}

TEST_CASE("losses over 20 steps are PyTorch's") {
  const char* path = std::getenv("EVENSTEP_PYTORCH_CURVES");
  REQUIRE_MESSAGE(path, "run this through meson test, which names the fixture");
  std::ifstream file(path);
  const Json curves = Json::parse(file);
  CHECK(curves["cases"].size() == model_names().size() + 1);  // gpt
  for (const Json& record : curves["cases"]) {
    const std::string model = record["model"];
    CAPTURE(model);
    const auto layers = model == "gpt" ? std::vector<LayerSpec>() : layers_of(model);
    const auto network = model == "gpt" ? make_gpt(small_gpt, options_of(record))
                                        : make_network(layers, options_of(record));
    std::vector<float> parameters = formula_parameters(*network);
    tame(layers, record["shift"], *network, parameters);
    std::vector<float> gradients(parameters.size());
    const auto trained = static_cast<std::size_t>(network->trained_count());
    Optimizer optimizer({.name = "sgd", .momentum = curves["momentum"]}, network->trained_count());
    REQUIRE(record["losses"].size() == 20);
    for (int step = 0; step < 20; ++step) {
      CAPTURE(step);
      const std::int64_t first = step % curves["batches"].get<int>() * record["batch"].get<int>();
      network->load_parameters(parameters);
      const double loss = run_batch(*network, record, first, gradients);
      const double tolerance = step == 0 ? 1e-5 : 1e-4;
      CHECK(loss == doctest::Approx(record["losses"][static_cast<std::size_t>(step)].get<double>())
                        .epsilon(tolerance));
      optimizer.step(std::span(parameters).first(trained), std::span(gradients).first(trained),
                     record["rate"]);
    }
  }
}

}  // namespace
}  // namespace evenstep::kernels::test
