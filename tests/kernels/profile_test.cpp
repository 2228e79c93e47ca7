// A network's time by layer: names and work of the rows, and when time is added to them.
#include "kernels/profile.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/harness.h"

namespace evenstep::kernels::test {
namespace {

std::unique_ptr<Network> network_of(const char* model) {
  NetworkOptions options;
  options.model = model;
  options.largest_chunk = 8;
  return make_network(options);
}

std::vector<std::string> names(const Profile& profile) {
  std::vector<std::string> result;
  for (const Profile::Row& row : profile.rows()) result.push_back(row.layer);
  return result;
}

TEST_CASE("a profile has the work of every layer") {
  const auto network = network_of("mlp");
  const Profile profile = network->make_profile();
  CHECK(names(profile) == std::vector<std::string>{"fc1", "relu1", "fc2", "relu2", "fc3", "loss"});
  CHECK(profile.rows()[0].forward_flops == 2 * 784 * 512);
  CHECK(profile.rows()[0].backward_flops == 2 * 784 * 512);  // nobody needs the images' gradients
  CHECK(profile.rows()[1].flops() == 0);
  CHECK(profile.rows()[2].backward_flops == 2 * 2 * 512 * 512);
  CHECK(profile.total().forward_flops == 2 * (784 * 512 + 512 * 512 + 512 * 10));
}

TEST_CASE("convolutions count every output pixel") {
  const auto network = network_of("cnn");
  CHECK(network->make_profile().total().forward_flops ==
        2 * (28 * 28 * 9 * 32 + 14 * 14 * 32 * 9 * 64 + 3136 * 128 + 128 * 10));
}

TEST_CASE("time is added while the profile is set") {
  const LoadedNetwork network = load_formula_parameters(network_of("mlp"));
  std::vector<float> gradients(static_cast<std::size_t>(network->parameter_count()));
  Profile profile = network->make_profile();
  network->set_profile(&profile);
  run_chunks(*network, std::vector<int>{4, 8}, 10, gradients);
  CHECK(profile.samples() == 12);
  for (const Profile::Row& row : profile.rows()) {
    CAPTURE(row.layer);
    CHECK(row.forward_ns > 0);
    CHECK(row.backward_ns > 0);
  }
  network->set_profile(nullptr);
  const std::int64_t before = profile.total().ns();
  run_chunks(*network, std::vector<int>{4, 8}, 10, gradients);
  CHECK(profile.samples() == 12);
  CHECK(profile.total().ns() == before);
}

TEST_CASE("the peak is one that a processor can have") {
  const double peak = measure_peak_flops(Dtype::f32);
  CHECK(peak > 1e8);
  CHECK(peak < 1e15);
}

}  // namespace
}  // namespace evenstep::kernels::test
