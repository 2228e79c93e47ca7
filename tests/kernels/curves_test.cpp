// Each model's losses over some steps of SGD against PyTorch's (make_curves.py), from the same
// weights and samples. Rounding errors grow from step to step, so the tolerance does: from 1e-5 of
// the loss in the first step to 1e-3 in the last.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

/// Mean loss of the next `batch` samples, whose gradients update the parameters.
double train_step(Network& network, const Json& record, std::int64_t first,
                  std::span<float> parameters, std::span<float> gradients) {
  const std::int64_t batch = record["batch"];
  network.load_parameters(parameters);
  double loss = 0;
  std::int64_t done = 0;
  network.menu().for_each_chunk(batch, [&](int size) {
    stage(network, first + done, size, record["classes"]);
    loss += network.forward(size).loss;
    done += size;
    network.backward(size, {done == size, done == batch}, gradients, nullptr);
  });
  const auto rate = static_cast<float>(record["rate"].get<double>() / static_cast<double>(batch));
  for (std::size_t i = 0; i < static_cast<std::size_t>(network.trained_count()); ++i)
    parameters[i] -= rate * gradients[i];
  return loss / static_cast<double>(batch);
}

TEST_CASE("losses over some steps are PyTorch's") {
  const char* path = std::getenv("EVENSTEP_PYTORCH_CURVES");
  REQUIRE_MESSAGE(path, "run this through meson test, which names the fixture");
  std::ifstream file(path);
  const Json cases = Json::parse(file)["cases"];
  CHECK(cases.size() == model_names().size() + 1);  // gpt
  for (const Json& record : cases) {
    const std::string model = record["model"];
    CAPTURE(model);
    const auto network = model == "gpt" ? make_gpt(small_gpt, options_of(record))
                                        : make_network(layers_of(model), options_of(record));
    std::vector<float> parameters = formula_parameters(*network);
    std::vector<float> gradients(parameters.size());
    const std::size_t steps = record["losses"].size();
    for (std::size_t step = 0; step < steps; ++step) {
      CAPTURE(step);
      const std::int64_t first = static_cast<std::int64_t>(step) * record["batch"].get<int>();
      const double loss = train_step(*network, record, first, parameters, gradients);
      const double tolerance = step == 0 ? 1e-5 : 1e-3;
      CHECK(loss == doctest::Approx(record["losses"][step].get<double>()).epsilon(tolerance));
    }
  }
}

}  // namespace
}  // namespace evenstep::kernels::test
