// PooledGradients in all its shapes against sums over every tap: on any processor, though networks
// take each shape only where it is fast.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/onednn/pooled_gradients.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr std::int64_t samples = 3;
constexpr std::int64_t height = 7;  // the last row and column are in no pool
constexpr std::int64_t width = 5;

/// A plain tensor of four dimensions.
struct Plain {
  std::int64_t a, b, c, d;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(a * b * c * d));

  float& at(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) {
    return values[static_cast<std::size_t>(((i * b + j) * c + k) * d + l)];
  }

  /// Calls visit(value, place) with its place where `block` values of the second dimension lie
  /// side by side.
  template <typename Visit>
  void for_each(std::int64_t block, Visit visit) {
    for (std::int64_t i = 0; i < a; ++i)
      for (std::int64_t j = 0; j < b; ++j)
        for (std::int64_t k = 0; k < c; ++k)
          for (std::int64_t l = 0; l < d; ++l)
            visit(at(i, j, k, l),
                  (((i * (b / block) + j / block) * c + k) * d + l) * block + j % block);
  }
};

/// Values that begin a cache line, as oneDNN's memory does.
class Aligned {
 public:
  explicit Aligned(const Plain& plain)
      : memory_({{static_cast<std::int64_t>(plain.values.size())},
                 dnnl::memory::data_type::f32,
                 dnnl::memory::format_tag::a},
                engine_) {}
  Aligned(Plain& plain, std::int64_t block) : Aligned(plain) {
    plain.for_each(block, [&](float value, std::int64_t place) { begin()[place] = value; });
  }
  float* begin() { return static_cast<float*>(memory_.get_data_handle()); }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::memory memory_;
};

/// The convolution's backward, tap by tap.
struct Reference {
  Plain weights, biases, input;

  Reference(Plain& x, Plain& w, Plain& gradients, Plain& winners)
      : weights{w.a, w.b, 3, 3}, biases{1, w.a, 1, 1}, input{x.a, x.b, x.c, x.d} {
    gradients.for_each(1, [&, i = std::int64_t{0}](float gradient, std::int64_t) mutable {
      const std::int64_t n = i / (gradients.b * gradients.c * gradients.d);
      const std::int64_t o = i / (gradients.c * gradients.d) % gradients.b;
      const std::int64_t py = i / gradients.d % gradients.c;
      const std::int64_t px = i % gradients.d;
      ++i;
      const auto winner = static_cast<std::int64_t>(winners.at(n, o, py, px));
      biases.at(0, o, 0, 0) += gradient;
      for (std::int64_t c = 0; c < x.b; ++c)
        for (std::int64_t ky = 0; ky < 3; ++ky)
          for (std::int64_t kx = 0; kx < 3; ++kx) {
            const std::int64_t y = 2 * py + winner / 2 + ky - 1;
            const std::int64_t column = 2 * px + winner % 2 + kx - 1;
            if (y < 0 || y >= x.c || column < 0 || column >= x.d) continue;
            weights.at(o, c, ky, kx) += gradient * x.at(n, c, y, column);
            input.at(n, c, y, column) += gradient * w.at(o, c, ky, kx);
          }
    });
  }
};

void check_equal(Plain& expected, std::int64_t block, Aligned& found) {
  expected.for_each(block, [&](float value, std::int64_t place) {
    CHECK(found.begin()[place] == doctest::Approx(value).epsilon(1e-5));
  });
}

void check(PooledGradients::Shape shape, std::int64_t channels, std::int64_t outputs) {
  CAPTURE(shape.channels);
  CAPTURE(shape.lanes);
  std::mt19937 random(static_cast<unsigned>(channels + outputs));
  std::uniform_int_distribution<int> digit(-4, 4);
  Plain x{samples, channels, height, width};
  Plain w{outputs, channels, 3, 3};
  Plain gradients{samples, outputs, height / 2, width / 2};
  Plain winners{samples, outputs, height / 2, width / 2};
  for (float& value : x.values) value = static_cast<float>(digit(random));
  for (float& value : w.values) value = static_cast<float>(digit(random));
  for (float& value : gradients.values) value = static_cast<float>(std::max(digit(random), 0));
  for (float& value : winners.values) value = static_cast<float>(digit(random) & 3);
  Reference reference(x, w, gradients, winners);

  Context context(ChunkMenu(4), Dtype::f32);
  PooledGradients pooled(
      context, {static_cast<int>(channels), static_cast<int>(height), static_cast<int>(width)},
      outputs, shape);
  context.plan.commit();
  const std::int64_t input_block = shape.channels == 32 ? 16 : shape.channels;
  Aligned input(x, input_block), weights(w, shape.channels);
  Aligned blocked_gradients(gradients, shape.lanes);
  std::vector<std::uint32_t> blocked_winners(winners.values.size());
  winners.for_each(shape.lanes, [&](float value, std::int64_t place) {
    blocked_winners[static_cast<std::size_t>(place)] = static_cast<std::uint32_t>(value);
  });
  Aligned weight_gradients(w), bias_gradients(reference.biases), input_gradients(x);

  pooled.collect(blocked_gradients.begin(), blocked_winners.data(), samples);
  pooled.weights(input.begin(), weight_gradients.begin(), bias_gradients.begin());
  check_equal(reference.weights, shape.channels, weight_gradients);
  check_equal(reference.biases, 1, bias_gradients);
  if (shape.channels == 1) return;
  pooled.input(weights.begin(), input_gradients.begin());
  check_equal(reference.input, input_block, input_gradients);
}

TEST_CASE("gradients are those of a dense backward") {
  check({.channels = 32, .lanes = 16}, 64, 32);
  check({.channels = 8, .lanes = 8}, 24, 16);
  check({.channels = 1, .lanes = 8}, 3, 16);
  check({.channels = 1, .lanes = 16}, 1, 32);
}

}  // namespace
}  // namespace evenstep::kernels::onednn
