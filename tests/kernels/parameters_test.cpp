#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/models.h"
#include "tests/kernels/harness.h"

namespace evenstep::kernels::test {
namespace {

std::vector<ParameterRange> ranges_of(const char* model) {
  return parameter_ranges(find_model(model).layers(), {}, 10);
}

std::vector<float> initial(const char* model, std::uint64_t seed) {
  const auto ranges = ranges_of(model);
  std::vector<float> values(static_cast<std::size_t>(ranges.back().first + ranges.back().count));
  initialise_parameters(ranges, seed, values);
  return values;
}

/// FNV-1a over the values' bits.
std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t hash = 14695981039346656037u;
  for (float value : values) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211u;
  return hash;
}

TEST_CASE("parameters lie in the order that backward fills, shaped as PyTorch has them") {
  const auto ranges = ranges_of("cnn");
  const char* names[] = {"fc2.weight",   "fc2.bias",   "fc1.weight",   "fc1.bias",
                         "conv2.weight", "conv2.bias", "conv1.weight", "conv1.bias"};
  std::int64_t next = 0;
  REQUIRE(ranges.size() == std::size(names));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    CHECK(ranges[i].name == names[i]);
    CHECK(ranges[i].first == next);
    std::int64_t product = 1;
    for (std::int64_t n : ranges[i].shape) product *= n;
    CHECK(product == ranges[i].count);
    next += ranges[i].count;
  }
  CHECK(ranges[4].shape == std::vector<std::int64_t>{64, 32, 3, 3});
  CHECK(ranges[4].fan_in == 288);
  CHECK(ranges[5].fan_in == 288);
  CHECK(next == 421642);
}

struct Published {
  const char* model;
  std::int64_t parameters;
  double multiply_adds;
};

// Parameters: He et al. 2016 give 0.27, 0.46 and 0.85 million, torchvision
// the others, inception3 without its side head. Multiply-adds: He et al. and torchvision likewise.
TEST_CASE("models have as many parameters and multiply-adds as were published") {
  const Published published[] = {
      {"softmax", 7850, 7840},     {"mlp", 669706, 668672},        {"cnn", 421642, 4241152},
      {"cifarnet", 89578, 12.3e6}, {"resnet20", 272474, 41e6},     {"resnet32", 466906, 69.4e6},
      {"resnet56", 855770, 126e6}, {"resnet50", 25557032, 4.09e9}, {"inception3", 23834568, 5.71e9},
  };
  CHECK(std::size(published) == model_names().size());
  for (const Published& known : published) {
    CAPTURE(known.model);
    const Model& model = find_model(known.model);
    std::int64_t parameters = 0;
    for (const ParameterRange& range : parameter_ranges(model.layers(), model.input, model.classes))
      parameters += range.trained ? range.count : 0;
    CHECK(parameters == known.parameters);
    double sum = 0;
    for (const Node& node : make_graph(model.layers(), model.input, model.classes))
      sum += static_cast<double>(forward_flops(node)) / 2;
    CHECK(sum == doctest::Approx(known.multiply_adds).epsilon(0.01));
  }
}

// GPT-2 small (Radford et al. 2019); its work as nanoGPT's transformer_sizing counts it.
TEST_CASE("gpt has as many parameters and multiply-adds as were published") {
  const GptOptions gpt2{
      .layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 50257};
  const std::vector<LayerSpec> layers = gpt_layers(gpt2);
  const SampleShape input{1, gpt2.context, 1};
  const auto ranges = parameter_ranges(layers, input, gpt2.vocabulary);
  CHECK(ranges.back().first + ranges.back().count == 124'439'808);
  std::int64_t flops = 0;
  for (const Node& node : make_graph(layers, input, gpt2.vocabulary)) flops += forward_flops(node);
  CHECK(flops == 291'648'307'200);
}

TEST_CASE("gpt starts as published") {
  const GptOptions gpt{.layers = 8, .heads = 2, .width = 64, .context = 32, .vocabulary = 256};
  const auto ranges = parameter_ranges(gpt_layers(gpt), {1, gpt.context, 1}, gpt.vocabulary);
  std::vector<float> values(static_cast<std::size_t>(ranges.back().first + ranges.back().count));
  initialise_parameters(ranges, 5, values);
  for (const ParameterRange& range : ranges) {
    CAPTURE(range.name);
    const auto own = std::span(values).subspan(static_cast<std::size_t>(range.first),
                                               static_cast<std::size_t>(range.count));
    if (range.shape.size() == 1) {
      const float start =
          range.name.find("norm") != std::string::npos && range.name.ends_with("weight");
      CHECK(std::ranges::count(own, start) == range.count);
      continue;
    }
    const bool residual =
        range.name.ends_with("projection.weight") || range.name.ends_with("narrow.weight");
    double squares = 0;
    for (float value : own) squares += static_cast<double>(value) * static_cast<double>(value);
    const double deviation = std::sqrt(squares / static_cast<double>(range.count));
    CHECK(deviation == doctest::Approx(residual ? 0.005 : 0.02).epsilon(0.1));
  }
}

TEST_CASE("a sequence model that cannot be built is refused with the values") {
  CHECK_THROWS_WITH_AS(
      gpt_layers({.heads = 3, .width = 256}),
      "4 layers of width 256 with 3 heads: the width must be a multiple of the heads",
      std::invalid_argument);
  const auto graph_of = [](std::vector<LayerSpec> layers, SampleShape input) {
    return make_graph(layers, input, 7);
  };
  const LayerSpec embedding{LayerKind::embedding, "e", 5};
  CHECK_THROWS_WITH_AS(graph_of({embedding}, {3, 8, 8}),
                       "e: an embedding reads the network's tokens, 1 x tokens x 1, not 3x8x8",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      graph_of({embedding, {.kind = LayerKind::attention, .name = "a", .heads = 2}}, {1, 8, 1}),
      "a: 2 heads cannot share 5 features as queries, keys and values", std::invalid_argument);
  CHECK_THROWS_WITH_AS(graph_of({embedding,
                                 {LayerKind::token_linear, "w", 6},
                                 {.kind = LayerKind::tied_linear, .name = "t", .weights_of = "e"}},
                                {1, 8, 1}),
                       "t: 'e' is no embedding of 6 features", std::invalid_argument);
}

TEST_CASE("a token outside the vocabulary is refused") {
  const LoadedNetwork network = load_formula_parameters(make_gpt(small_gpt, {}));
  for (std::int32_t token : {-1, 50}) {
    network->tokens()[3] = token;
    CHECK_THROWS_AS(network->forward(1), std::out_of_range);
  }
}

TEST_CASE("an image smaller than a model's strides is refused with both sizes") {
  NetworkOptions options;
  options.model = "inception3";
  options.input = {3, 32, 32};
  CHECK_THROWS_WITH_AS(
      make_network(options),
      "mixed6a.3x3: a window of 3x3 does not fit into 1x1 values padded by 0x0; take "
      "larger images or a model with smaller strides",
      std::invalid_argument);
}

TEST_CASE("initial values are uniform in +-1/sqrt(fan_in)") {
  const auto ranges = ranges_of("mlp");
  const auto values = initial("mlp", 3);
  for (const ParameterRange& range : ranges) {
    if (range.count < 1000) continue;
    const double bound = 1 / std::sqrt(static_cast<double>(range.fan_in));
    double sum = 0;
    double squares = 0;
    double largest = 0;
    for (std::int64_t i = 0; i < range.count; ++i) {
      const double value = static_cast<double>(values[static_cast<std::size_t>(range.first + i)]);
      sum += value;
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    const auto n = static_cast<double>(range.count);
    CHECK(largest <= bound);
    CHECK(largest > 0.99 * bound);
    // Five standard deviations of the mean and of the mean square of n uniform values.
    CHECK(std::abs(sum / n) < 5 * bound / std::sqrt(3 * n));
    CHECK(std::abs(squares / n / (bound * bound) - 1.0 / 3) < 5 * 0.3 / std::sqrt(n));
  }
}

TEST_CASE("initial values are the same bits everywhere, another set for another seed") {
  CHECK(hash_of(initial("cnn", 1)) == 11058435477612323477u);
  CHECK(hash_of(initial("softmax", 42)) == 12726270749046122188u);
  CHECK(initial("cnn", 1) != initial("cnn", 2));
}

TEST_CASE("what cannot be built is refused with the value and the way out") {
  NetworkOptions options;
  options.model = "rnn";
  CHECK_THROWS_WITH_AS(make_network(options),
                       "unknown model 'rnn'; the models are softmax, mlp, cnn, cifarnet, "
                       "resnet20, resnet32, resnet56, resnet50, inception3",
                       std::invalid_argument);
  options.model = "cnn";
  options.input = {1, 3, 3};
  CHECK_THROWS_WITH_AS(
      make_network(options),
      "pool2: a window of 2x2 does not fit into 1x1 values padded by 0x0; take larger images or a "
      "model with smaller strides",
      std::invalid_argument);
  options.input = {};
  options.largest_chunk = 3;
  CHECK_THROWS_AS(make_network(options), std::invalid_argument);
  options.largest_chunk = 2;
  const auto network = make_network(options);
  std::vector<float> few(7);
  CHECK_THROWS_AS(network->load_parameters(few), std::invalid_argument);
  CHECK_THROWS_AS(network->forward(3), std::invalid_argument);
  CHECK_THROWS_AS(network->forward(4), std::invalid_argument);
  CHECK_THROWS_AS(network->backward(2, {}, few, nullptr), std::logic_error);
  CHECK_THROWS_AS(network->forward(1), std::logic_error);  // without parameters
  const std::vector<float> parameters = formula_parameters(*network);
  network->load_parameters(parameters);
  network->labels()[0] = 10;
  CHECK_THROWS_AS(network->forward(1), std::out_of_range);
  network->labels()[0] = -1;
  CHECK_THROWS_AS(network->forward(1), std::out_of_range);
}

TEST_CASE("bf16 on a processor that cannot do it is refused with the way out") {
  if (dtypes().size() == 2) return;
  NetworkOptions options;
  options.dtype = Dtype::bf16;
  try {
    make_network(options);
    FAIL("built, but dtypes() does not name it");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).ends_with("bf16 needs AVX-512 or newer, take f32"));
  }
}

/// A softmax model whose logits are the image's first pixel times 1000, and 0.
LossSums huge_logits(float pixel, std::int32_t label) {
  NetworkOptions options;
  options.model = "softmax";
  options.input = {1, 1, 1};
  options.classes = 2;
  options.largest_chunk = 1;
  const auto network = make_network(options);
  const std::vector<float> parameters = {1000, 0, 0, 0};  // weights 1000 and 0, biases 0
  network->load_parameters(parameters);
  network->images()[0] = pixel;
  network->labels()[0] = label;
  return network->forward(1);
}

TEST_CASE("huge logits neither overflow nor vanish; NaN stays NaN and is never right") {
  CHECK(huge_logits(1e6f, 1).loss == doctest::Approx(1e9));
  CHECK(huge_logits(1e6f, 1).correct == 0);
  CHECK(huge_logits(1e6f, 0).loss == 0);
  CHECK(huge_logits(1e6f, 0).correct == 1);
  CHECK(huge_logits(-1e6f, 0).loss == doctest::Approx(1e9));
  CHECK(huge_logits(0, 0).loss == doctest::Approx(std::log(2.0)));
  CHECK(huge_logits(0, 0).correct == 1);  // a tie: the first is the answer
  CHECK(huge_logits(0, 1).correct == 0);
  const LossSums nan = huge_logits(std::nanf(""), 0);
  CHECK(std::isnan(nan.loss));
  CHECK(nan.correct == 0);
}

TEST_CASE("NaN in any parameter reaches the loss: ReLU and pooling do not swallow it") {
  for (Dtype dtype : dtypes()) {
    NetworkOptions options;
    options.dtype = dtype;
    options.largest_chunk = 2;
    const auto network = make_network(options);
    for (const ParameterRange& range : network->parameters()) {
      CAPTURE(range.name);
      std::vector<float> parameters = formula_parameters(*network);
      parameters[static_cast<std::size_t>(range.first)] = std::numeric_limits<float>::quiet_NaN();
      network->load_parameters(parameters);
      stage(*network, 0, 2, 10);
      CHECK(std::isnan(network->forward(2).loss));
    }
  }
}

}  // namespace
}  // namespace evenstep::kernels::test
