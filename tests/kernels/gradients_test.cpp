// Every gradient against central differences of an independent double-precision forward pass, and
// the share's gradients against themselves however the share is cut.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gpt.h"
#include "kernels/models.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/reference_model.h"

namespace evenstep::kernels::test {
namespace {

using enum LayerKind;

struct Case {
  const char* what;
  std::vector<LayerSpec> layers;
  SampleShape input;
  int classes;
};

LayerSpec conv(const char* name, int outputs, bool bias = true) {
  return {convolution, name, outputs, square(3, 1, 1), bias};
}
LayerSpec pool(const char* name) { return {max_pooling, name, 0, square(2, 2)}; }

LayerSpec embed(int width) { return {embedding, "embedding", width}; }
LayerSpec per_token(const char* name, int outputs = 0) { return {token_linear, name, outputs}; }
LayerSpec attend(int heads) { return {.kind = attention, .name = "attention", .heads = heads}; }
LayerSpec tied(const char* name) {
  return {.kind = tied_linear, .name = name, .weights_of = "embedding"};
}

std::vector<LayerSpec> layers_of(const char* model) { return find_model(model).layers(); }

/// Each layer alone before a linear one, odd sizes and channel counts that blocked layouts pad,
/// and the models themselves on small images.
std::vector<Case> cases() {
  return {
      {"linear", {{linear, "fc"}}, {1, 5, 3}, 4},
      {"linear on channels", {{linear, "fc"}}, {3, 4, 4}, 3},
      {"relu", {{linear, "a", 9}, {relu, "r"}, {linear, "b"}}, {1, 3, 3}, 5},
      {"convolution", {conv("c", 16), {linear, "fc"}}, {1, 6, 5}, 3},
      {"padded channels", {conv("c", 5), {linear, "fc"}}, {2, 4, 6}, 3},
      {"two convolutions",
       {conv("c", 16), {relu, "r"}, conv("d", 20), {linear, "fc"}},
       {3, 5, 5},
       4},
      {"windows of all kinds, some without bias",
       {{convolution, "a", 16, {5, 3, 1, 2, 0}},
        {relu, "r"},
        {convolution, "b", 32, square(3, 2, 1), false},
        {relu, "s"},
        {convolution, "c", 16, square(1, 2), false},
        {convolution, "d", 16, {1, 3, 1, 0, 1}},
        {linear, "fc"}},
       {3, 9, 8},
       3},
      {"residual join",
       {conv("a", 16),
        {relu, "r"},
        conv("b", 16),
        {relu, "s"},
        conv("c", 16),
        {.kind = add, .name = "sum", .from = {"c", "r"}},
        {relu, "t"},
        conv("d", 16),
        {.kind = add, .name = "sum2", .from = {"t", "d"}},
        {linear, "fc"}},
       {2, 5, 4},
       3},
      {"residual join over a projection",
       {conv("a", 16),
        {relu, "r"},
        {convolution, "b", 32, square(3, 2, 1)},
        {relu, "s"},
        conv("c", 32),
        {convolution, "p", 32, square(1, 2), false, {"r"}},
        {.kind = add, .name = "sum", .from = {"c", "p"}},
        {linear, "fc"}},
       {2, 6, 5},
       3},
      {"sum of what is read thrice",
       {conv("a", 16),
        {relu, "r"},
        conv("b", 16),
        {.kind = add, .name = "sum", .from = {"r", "b"}},
        {.kind = add, .name = "sum2", .from = {"r", "sum"}},
        {.kind = add, .name = "sum3", .from = {"sum2", "sum2"}},
        {linear, "fc"}},
       {2, 4, 4},
       3},
      {"batch norm",
       {conv("a", 16, false), {batch_norm, "n"}, conv("b", 5), {linear, "fc"}},
       {2, 5, 4},
       3},
      {"batch norm first", {{batch_norm, "n"}, {relu, "r"}, {linear, "fc"}}, {3, 4, 4}, 3},
      {"batch norm on padded channels and ReLU",
       {conv("a", 5, false),
        {.kind = batch_norm, .name = "n", .epsilon = 1e-3},
        {relu, "r"},
        {linear, "fc"}},
       {2, 5, 4},
       3},
      {"residual joins over batch norm",
       {conv("a", 16, false),
        {batch_norm, "na"},
        {relu, "r"},
        conv("b", 16, false),
        {batch_norm, "nb"},
        {relu, "s"},
        conv("c", 16, false),
        {batch_norm, "nc"},
        {.kind = add, .name = "sum", .from = {"nc", "r"}},
        {relu, "t"},
        {.kind = convolution, .name = "p", .outputs = 32, .window = square(1, 2), .bias = false},
        {batch_norm, "np"},
        {.kind = convolution,
         .name = "d",
         .outputs = 32,
         .window = square(3, 2, 1),
         .bias = false,
         .from = {"t"}},
        {batch_norm, "nd"},
        {.kind = add, .name = "sum2", .from = {"nd", "np"}},
        {relu, "u"},
        {.kind = average_pooling, .name = "pool", .window = whole_image},
        {linear, "fc"}},
       {2, 6, 5},
       3},
      {"batch norm of what it is added to",
       {conv("a", 16, false),
        {batch_norm, "n"},
        {.kind = add, .name = "sum", .from = {"n", "a"}},
        {linear, "fc"}},
       {2, 4, 4},
       3},
      {"pools of all kinds",
       {conv("a", 16),
        {.kind = max_pooling, .name = "p", .window = square(3, 2, 1)},
        conv("b", 20),
        {.kind = average_pooling, .name = "q", .window = {3, 2, 1, 1, 0}},
        conv("c", 16),
        {.kind = max_pooling, .name = "r", .window = {3, 3, 2, 0, 0, true}},
        {.kind = average_pooling, .name = "s", .window = {2, 2, 2, 0, 0, true}},
        {linear, "fc"}},
       {2, 12, 11},
       3},
      {"local response norm",
       {conv("a", 16),
        {.kind = local_response_norm, .name = "n", .window = square(3), .alpha = 2, .beta = 0.75},
        conv("b", 16),
        {.kind = local_response_norm,
         .name = "m",
         .window = square(3),
         .alpha = 3,
         .beta = 0.75,
         .across_channels = false},
        {linear, "fc"}},
       {2, 5, 6},
       3},
      {"concat",
       {conv("a", 16),
        {relu, "r"},
        {.kind = convolution, .name = "b", .outputs = 32, .window = square(1), .from = {"r"}},
        {.kind = convolution, .name = "c", .outputs = 16, .window = square(3, 1, 1), .from = {"r"}},
        {.kind = max_pooling, .name = "p", .window = square(3, 1, 1), .from = {"r"}},
        {.kind = concat, .name = "all", .from = {"b", "c", "p", "r"}},
        conv("d", 16),
        {linear, "fc"}},
       {2, 5, 6},
       3},
      {"concat of padded channels",
       {conv("a", 16),
        {.kind = convolution, .name = "b", .outputs = 5, .window = square(1), .from = {"a"}},
        {.kind = convolution, .name = "c", .outputs = 3, .window = square(1), .from = {"a"}},
        {.kind = concat, .name = "all", .from = {"b", "c"}},
        conv("d", 4),
        {linear, "fc"}},
       {2, 5, 6},
       3},
      {"pooling", {conv("c", 16), pool("p"), {linear, "fc"}}, {1, 6, 6}, 3},
      {"odd pooling", {conv("c", 24), pool("p"), {relu, "r"}, {linear, "fc"}}, {2, 7, 5}, 4},
      {"pooled convolution of two groups of channels",
       {conv("c", 64), conv("d", 32), pool("p"), {relu, "r"}, {linear, "fc"}},
       {1, 7, 6},
       4},
      {"pooled convolution without a ReLU",
       {conv("c", 32), conv("d", 16), pool("p"), {linear, "fc"}},
       {1, 4, 4},
       3},
      {"pooling first", {pool("p"), {relu, "r"}, {linear, "fc"}}, {3, 6, 4}, 3},
      {"embedding", {embed(5), per_token("fc")}, {1, 6, 1}, 7},
      {"tied embedding", {embed(5), tied("fc")}, {1, 3, 1}, 7},
      {"layer norm",
       {embed(6), {.kind = layer_norm, .name = "n", .epsilon = 1e-3}, per_token("fc")},
       {1, 4, 1},
       5},
      {"layer norm of what is read twice",
       {embed(6),
        {layer_norm, "n"},
        per_token("a", 6),
        {.kind = add, .name = "sum", .from = {"a", "embedding"}},
        {layer_norm, "m"},
        {.kind = add, .name = "sum2", .from = {"m", "sum"}},
        per_token("fc")},
       {1, 4, 1},
       5},
      {"GELU", {embed(6), per_token("a", 9), {gelu, "g"}, per_token("fc")}, {1, 4, 1}, 5},
      {"attention", {embed(8), per_token("qkv", 24), attend(2), per_token("fc")}, {1, 9, 1}, 5},
      {"attention over several blocks of queries",
       {embed(4), per_token("qkv", 15), attend(1), per_token("fc")},
       {1, 70, 1},
       5},
      {"linear layer over a sequence", {embed(5), {linear, "fc"}}, {1, 6, 1}, 7},
      {"gpt", gpt_layers({.layers = 2, .heads = 3, .width = 12}), {1, 10, 1}, 11},
      {"softmax", layers_of("softmax"), {1, 6, 6}, 10},
      {"mlp", layers_of("mlp"), {1, 4, 4}, 10},
      {"cnn", layers_of("cnn"), {1, 8, 8}, 10},
      {"cnn, odd and three channels", layers_of("cnn"), {3, 7, 5}, 4},
  };
}

struct Samples {
  std::vector<double> images;
  std::vector<std::int32_t> labels;
};

Samples formula_samples(const Case& c, int count) {
  const bool sequences = c.layers[0].kind == embedding;
  const bool each = sequences && c.layers.back().kind != linear;  // token has a target
  Samples samples;
  for (std::int64_t i = 0; i < count * c.input.elements(); ++i) {
    samples.images.push_back(sequences ? token_of(i, c.classes)
                                       : static_cast<double>(image_value(i)));
  }
  for (int i = 0; i < (each ? count * c.input.height : count); ++i)
    samples.labels.push_back(label_of(i, c.classes));
  return samples;
}

/// Central difference in parameter `i`; NaN where a kink of ReLU or pooling lies within it, seen
/// by two widths that disagree.
double difference(const Case& c, std::vector<double>& parameters, std::size_t i,
                  const Samples& samples, std::span<const int> groups) {
  const auto loss_at = [&](double value) {
    const double kept = std::exchange(parameters[i], value);
    const double loss = reference_loss(c.layers, c.input, c.classes, parameters, samples.images,
                                       samples.labels, groups);
    parameters[i] = kept;
    return loss;
  };
  const double at = parameters[i];
  const auto slope = [&](double h) { return (loss_at(at + h) - loss_at(at - h)) / (2 * h); };
  const double wide = slope(2e-5);
  const double narrow = slope(5e-6);
  const bool smooth = std::abs(wide - narrow) <= 1e-6 * (1 + std::abs(wide));
  return smooth ? narrow : std::nan("");
}

/// Largest gradient of the tensor: the scale that fp32 rounding errors are relative to.
double scale_of(std::span<const float> gradients) {
  double largest = 0;
  for (float g : gradients) largest = std::max(largest, std::abs(static_cast<double>(g)));
  return largest;
}

void check_case(const Case& c, int batch) {
  const std::string what = c.what;
  CAPTURE(what);
  CAPTURE(batch);
  NetworkOptions options;
  options.input = c.input;
  options.classes = c.classes;
  options.largest_chunk = 64;
  const auto network = make_network(c.layers, options);
  const std::vector<float> parameters = formula_parameters(*network);
  std::vector<float> gradients(parameters.size(), std::nanf(""));
  network->load_parameters(parameters);
  const std::vector<int> chunks = cut(network->menu(), batch);
  const std::vector<int> groups = groups_of(*network, chunks);
  const LossSums sums = run_chunks(*network, chunks, c.classes, gradients);

  const Samples samples = formula_samples(c, batch);
  std::vector<double> exact(parameters.begin(), parameters.end());
  const double loss =
      reference_loss(c.layers, c.input, c.classes, exact, samples.images, samples.labels, groups);
  CHECK(sums.loss == doctest::Approx(loss).epsilon(2e-6));

  const int probes = batch >= 64 ? 3 : 12;
  int smooth = 0;
  int tensors = 0;
  for (const ParameterRange& range : network->parameters()) {
    if (!range.trained) continue;
    ++tensors;
    const std::span own = std::span(gradients).subspan(static_cast<std::size_t>(range.first),
                                                       static_cast<std::size_t>(range.count));
    const double tolerance = 1e-5 * scale_of(own) + 1e-6;
    for (int p = 0; p < probes; ++p) {
      const auto i = scramble(7, static_cast<std::uint32_t>(p)) % own.size();
      const double expected =
          difference(c, exact, static_cast<std::size_t>(range.first) + i, samples, groups);
      if (std::isnan(expected)) continue;
      ++smooth;
      CAPTURE(range.name);
      CAPTURE(i);
      CHECK(std::abs(static_cast<double>(own[i]) - expected) <= tolerance);
    }
  }
  // Kinks are rare; a test that skipped most probes would test nothing.
  CHECK(smooth >= probes * tensors * 3 / 4);
}

TEST_CASE("gradients equal central differences") {
  for (const Case& c : cases()) {
    // Differences over 64 samples are dear in large networks.
    std::int64_t work = 0;
    for (const Node& node : make_graph(c.layers, c.input, c.classes)) work += forward_flops(node);
    for (int batch : {1, 2, 7, 64}) {
      if (batch < 64 || work < 200'000) check_case(c, batch);
    }
  }
}

std::vector<float> gradients_of(Network& network, const std::vector<int>& chunks, int classes) {
  // Poison: the first pass must overwrite whatever is left over.
  std::vector<float> gradients(static_cast<std::size_t>(network.parameter_count()), std::nanf(""));
  run_chunks(network, chunks, classes, gradients);
  return gradients;
}

void check_same(std::span<const ParameterRange> ranges, const std::vector<float>& expected,
                const std::vector<float>& gradients, double relative) {
  for (const ParameterRange& range : ranges) {
    CAPTURE(range.name);
    double worst = 0;
    double scale = 0;
    for (std::int64_t j = range.first; j < range.first + range.count; ++j) {
      const auto i = static_cast<std::size_t>(j);
      scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
      const double error = std::abs(static_cast<double>(expected[i]) - gradients[i]);
      worst = std::isnan(error) ? error : std::max(worst, error);
    }
    CHECK(worst <= relative * scale);
  }
}

LoadedNetwork network_of(const char* model, Dtype dtype, int largest_chunk, int last_chunk = 1) {
  NetworkOptions options;
  options.model = model;
  options.dtype = dtype;
  options.largest_chunk = largest_chunk;
  options.last_chunk = last_chunk;
  return load_formula_parameters(make_any_network(options));
}

TEST_CASE("a share's gradients do not depend on how it is cut") {
  const std::vector<std::vector<int>> cuts = {
      {32}, {16, 16}, {8, 8, 8, 8}, {1, 1, 2, 4, 8, 16}, {16, 8, 4, 2, 1, 1}, {4, 16, 4, 8}};
  for (const char* model : {"softmax", "mlp", "cnn", "gpt"}) {
    for (Dtype dtype : dtypes()) {
      CAPTURE(model);
      CAPTURE(static_cast<int>(dtype));
      const auto network = network_of(model, dtype, 32);
      const std::vector<float> whole = gradients_of(*network, cuts[0], 10);
      // Activations may be rounded differently at another size, and in bf16 once more.
      const double relative = dtype == Dtype::f32 ? 1e-5 : 1e-2;
      for (const auto& chunks : cuts) {
        CAPTURE(chunks.size());
        check_same(network->parameters(), whole, gradients_of(*network, chunks, 10), relative);
      }
    }
  }
}

LoadedNetwork small_network_of(const char* model, Dtype dtype, int last_chunk) {
  NetworkOptions options;
  options.model = model;
  options.dtype = dtype;
  options.input =
      std::string(model) == "inception3" ? SampleShape{3, 75, 75} : SampleShape{3, 32, 32};
  options.largest_chunk = 2;
  options.last_chunk = last_chunk;
  return load_formula_parameters(make_network(options));
}

TEST_CASE("a large last chunk, which goes backward layer by layer, gives the very same gradients") {
  for (const char* model : model_names()) {
    for (Dtype dtype : dtypes()) {
      CAPTURE(model);
      CAPTURE(static_cast<int>(dtype));
      const auto usual = small_network_of(model, dtype, 1);
      const auto large = small_network_of(model, dtype, 6);
      CHECK(large->menu().largest() == 6);
      const auto expected = gradients_of(*usual, {1, 2, 2, 2, 2}, 10);
      for (const std::vector<int>& chunks : {std::vector{1, 2, 6}, {1, 2, 2, 4}, {1, 2, 2, 2, 2}})
        CHECK(gradients_of(*large, chunks, 10) == expected);
    }
  }
}

// The sums of tied weights take another order.
TEST_CASE("a large last chunk of sequences gives the same gradients") {
  for (Dtype dtype : dtypes()) {
    CAPTURE(static_cast<int>(dtype));
    const auto network = network_of("gpt", dtype, 2, 6);
    check_same(network->parameters(), gradients_of(*network, {1, 2, 2, 2, 2}, 10),
               gradients_of(*network, {1, 2, 6}, 10), 1e-5);
  }
}

TEST_CASE("a last chunk takes no more memory than it is given") {
  NetworkOptions options;
  options.largest_chunk = 2;
  options.last_chunk = 256;
  options.last_chunk_bytes = 10 << 20;
  const int largest = make_network(options)->menu().largest();
  CHECK(largest > 2);
  CHECK(largest < 256);
  options.last_chunk_bytes = 0;
  CHECK(make_network(options)->menu().largest() == 2);
}

// Linear layers keep a bounded number of samples for one product.
TEST_CASE("gradients of a share of many samples are sums of all of them") {
  for (Dtype dtype : dtypes()) {
    CAPTURE(static_cast<int>(dtype));
    const auto whole = network_of("mlp", dtype, 1024);
    const std::vector<float> expected = gradients_of(*whole, {512, 64, 1}, 10);
    for (int largest : {16, 128, 256}) {
      CAPTURE(largest);
      const auto network = network_of("mlp", dtype, largest);
      const double relative = dtype == Dtype::f32 ? 1e-5 : 1e-2;
      check_same(network->parameters(), expected,
                 gradients_of(*network, cut(network->menu(), 577), 10), relative);
    }
  }
}

TEST_CASE("ready names every range once, ascending, with final values") {
  for (const char* model : {"cnn", "gpt"}) {
    CAPTURE(model);
    const auto network = network_of(model, Dtype::f32, 4, 12);
    std::vector<float> gradients(static_cast<std::size_t>(network->parameter_count()));
    std::vector<float> when_ready(gradients.size());
    std::int64_t reached = 0;
    const GradientReady ready = [&](std::int64_t first, std::int64_t count) {
      CHECK(first == reached);
      std::copy_n(gradients.begin() + first, count, when_ready.begin() + first);
      reached = first + count;
    };
    for (const std::vector<int>& chunks : {std::vector{2, 4, 4}, {2, 4, 12}}) {
      reached = 0;
      run_chunks(*network, chunks, 10, gradients, &ready);
      CHECK(reached == network->parameter_count());
      CHECK(when_ready == gradients);
    }
  }
}

TEST_CASE("forward alone between two chunks does not disturb the sums") {
  for (const char* model : {"mlp", "gpt"}) {
    CAPTURE(model);
    const auto network = network_of(model, Dtype::f32, 8);
    const std::vector<float> expected = gradients_of(*network, {8, 8}, 10);
    std::vector<float> gradients(expected.size());
    stage(*network, 0, 8, 10);
    network->forward(8);
    network->backward(8, {true, false}, {}, nullptr);
    stage(*network, 40, 4, 10);
    network->forward(4);
    stage(*network, 8, 8, 10);
    network->forward(8);
    network->backward(8, {false, true}, gradients, nullptr);
    CHECK(gradients == expected);
  }
}

}  // namespace
}  // namespace evenstep::kernels::test
