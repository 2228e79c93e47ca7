#include "kernels/onednn/winograd.h"

#include <omp.h>

#include <algorithm>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr int places = 16;  // of a tile, 4x4
constexpr int taps = 9;
constexpr int most_lanes = 16;
// With more the transformed weights would not stay in the second-level cache.
constexpr int most_channels = 128;
constexpr std::int64_t most_together = 6;  // twelve sums of two vectors, of AVX2's 16 registers
// Of a strip's tiles, transformed: 256 KB, which stay in the second-level cache.
constexpr std::int64_t strip_floats = 65536;

/// Blocks of output channels whose sums are formed together: their weights lie side by side.
std::int64_t pair_of(std::int64_t blocks) { return blocks % 2 == 0 ? 2 : 1; }

/// Calls run(first, count) on parts of [0, all), of at most most_together and of about one size.
template <typename Run>
EVENSTEP_INLINE void in_groups(std::int64_t all, Run run) {
  const std::int64_t groups = (all + most_together - 1) / most_together;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = all * g / groups;
    run(first, all * (g + 1) / groups - first);
  }
}

/// The product at one place of a strip's tiles.
struct Product {
  std::int64_t lanes;
  std::int64_t inputs;  // channels
  std::int64_t blocks;  // of output channels
  std::int64_t tiles;
  float* input_values;   // tiles x inputs
  float* output_values;  // blocks x tiles x lanes
  float* weights;        // blocks / pair x inputs x pair x lanes
};

template <int lanes, int pair, int count>
EVENSTEP_INLINE void multiply_tiles(const Product& p, const float* weights, const float* inputs,
                                    float* outputs) {
  Vector<lanes> sums[pair][count] = {}, weight[pair];
  for (std::int64_t c = 0; c < p.inputs; ++c, weights += pair * lanes) {
#pragma GCC unroll 2
    for (int b = 0; b < pair; ++b) load(weights + b * lanes, weight[b]);
#pragma GCC unroll 6
    for (int t = 0; t < count; ++t) {
      const float value = inputs[t * p.inputs + c];
#pragma GCC unroll 2
      for (int b = 0; b < pair; ++b) sums[b][t] += value * weight[b];
    }
  }
#pragma GCC unroll 2
  for (int b = 0; b < pair; ++b) {
#pragma GCC unroll 6
    for (int t = 0; t < count; ++t) store(sums[b][t], outputs + (b * p.tiles + t) * lanes);
  }
}

template <int lanes, int pair, int count>
EVENSTEP_INLINE void sum_channels(const Product& p, float* weights, const float* inputs,
                                  const float* outputs) {
  Vector<lanes> sums[count][pair], gradient[pair];
#pragma GCC unroll 6
  for (int c = 0; c < count; ++c) {
#pragma GCC unroll 2
    for (int b = 0; b < pair; ++b) load(weights + (c * pair + b) * lanes, sums[c][b]);
  }
  for (std::int64_t t = 0; t < p.tiles; ++t, inputs += p.inputs, outputs += lanes) {
#pragma GCC unroll 2
    for (int b = 0; b < pair; ++b) load(outputs + b * p.tiles * lanes, gradient[b]);
#pragma GCC unroll 6
    for (int c = 0; c < count; ++c) {
      const float value = inputs[c];
#pragma GCC unroll 2
      for (int b = 0; b < pair; ++b) sums[c][b] += value * gradient[b];
    }
  }
#pragma GCC unroll 6
  for (int c = 0; c < count; ++c) {
#pragma GCC unroll 2
    for (int b = 0; b < pair; ++b) store(sums[c][b], weights + (c * pair + b) * lanes);
  }
}

/// Calls run with a count from 1 to most_together as a constant.
template <typename Run>
EVENSTEP_INLINE void with_count(std::int64_t count, Run run) {
  if (count == 6)
    run.template operator()<6>();
  else if (count == 5)
    run.template operator()<5>();
  else if (count == 4)
    run.template operator()<4>();
  else if (count == 3)
    run.template operator()<3>();
  else if (count == 2)
    run.template operator()<2>();
  else
    run.template operator()<1>();
}

template <int lanes, int pair>
EVENSTEP_INLINE void multiply_pairs(const Product& p) {
  for (std::int64_t block = 0; block < p.blocks; block += pair) {
    const float* weights = p.weights + block * p.inputs * lanes;
    in_groups(p.tiles, [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
      const float* inputs = p.input_values + first * p.inputs;
      float* outputs = p.output_values + (block * p.tiles + first) * lanes;
      with_count(count, [&]<int constant>() __attribute__((always_inline)) {
        multiply_tiles<lanes, pair, constant>(p, weights, inputs, outputs);
      });
    });
  }
}

template <int lanes, int pair>
EVENSTEP_INLINE void sum_pairs(const Product& p, std::int64_t first_block,
                               std::int64_t last_block) {
  for (std::int64_t block = first_block; block < last_block; block += pair) {
    const float* outputs = p.output_values + block * p.tiles * lanes;
    in_groups(p.inputs, [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
      float* weights = p.weights + (block * p.inputs + first * pair) * lanes;
      with_count(count, [&]<int constant>() __attribute__((always_inline)) {
        sum_channels<lanes, pair, constant>(p, weights, p.input_values + first, outputs);
      });
    });
  }
}

/// output_values = input_values x weights.
EVENSTEP_MULTIVERSION void multiply(const Product& p) {
  if (p.lanes == 16)
    pair_of(p.blocks) == 2 ? multiply_pairs<16, 2>(p) : multiply_pairs<16, 1>(p);
  else
    pair_of(p.blocks) == 2 ? multiply_pairs<8, 2>(p) : multiply_pairs<8, 1>(p);
}

/// weights += input_values transposed x output_values, for some blocks of output channels.
EVENSTEP_MULTIVERSION void sum_products(const Product& p, std::int64_t first, std::int64_t last) {
  if (p.lanes == 16)
    pair_of(p.blocks) == 2 ? sum_pairs<16, 2>(p, first, last) : sum_pairs<16, 1>(p, first, last);
  else
    pair_of(p.blocks) == 2 ? sum_pairs<8, 2>(p, first, last) : sum_pairs<8, 1>(p, first, last);
}

/// One row of tiles, of one block of channels.
struct TileRow {
  std::int64_t lanes;
  std::int64_t width;    // of the image
  std::int64_t columns;  // of tiles
  float* tiles;          // the first one's, at the first place
  std::int64_t place_step;
  std::int64_t tile_step;
};

/// B' d B, from four rows of the image. `rows` has room for 4 x (2 x columns + 2) vectors.
template <int lanes>
EVENSTEP_INLINE void transform_input(const TileRow& row, const float* const (&image)[4],
                                     float* rows) {
  const std::int64_t step = (2 * row.columns + 2) * lanes;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    std::fill_n(rows + i * step, lanes, 0.0f);
    std::fill_n(rows + i * step + (row.width + 1) * lanes,
                (2 * row.columns + 1 - row.width) * lanes, 0.0f);
  }
  for (std::int64_t x = 0; x < row.width; ++x) {
    Vector<lanes> d[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) load(image[i] + x * lanes, d[i]);
    float* to = rows + (x + 1) * lanes;
    store(d[0] - d[2], to);
    store(d[1] + d[2], to + step);
    store(d[2] - d[1], to + 2 * step);
    store(d[1] - d[3], to + 3 * step);
  }
  for (std::int64_t column = 0; column < row.columns; ++column) {
    float* tile = row.tiles + column * row.tile_step;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i, tile += 4 * row.place_step) {
      Vector<lanes> d[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) load(rows + i * step + (2 * column + k) * lanes, d[k]);
      store(d[0] - d[2], tile);
      store(d[1] + d[2], tile + row.place_step);
      store(d[2] - d[1], tile + 2 * row.place_step);
      store(d[1] - d[3], tile + 3 * row.place_step);
    }
  }
}

/// A' m A and biases, if any, to two rows of the image; the second may be missing.
template <int lanes>
EVENSTEP_INLINE void transform_output(const TileRow& row, const float* biases,
                                      float* const (&image)[2]) {
  Vector<lanes> bias = {};
  if (biases != nullptr) load(biases, bias);
  for (std::int64_t column = 0; column < row.columns; ++column) {
    const float* tile = row.tiles + column * row.tile_step;
    Vector<lanes> sums[2][4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      Vector<lanes> m[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) load(tile + (4 * i + k) * row.place_step, m[i]);
      sums[0][k] = m[0] + m[1] + m[2];
      sums[1][k] = m[1] - m[2] - m[3];
    }
#pragma GCC unroll 4
    for (int y = 0; y < 2; ++y) {
      if (image[y] == nullptr) continue;
      const Vector<lanes>(&sum)[4] = sums[y];
      float* to = image[y] + 2 * column * lanes;
      store(sum[0] + sum[1] + sum[2] + bias, to);
      if (2 * column + 1 < row.width) store(sum[1] - sum[2] - sum[3] + bias, to + lanes);
    }
  }
}

/// A dY A', from two rows of the image.
template <int lanes>
EVENSTEP_INLINE void transform_gradient(const TileRow& row, const float* const (&image)[2]) {
  for (std::int64_t column = 0; column < row.columns; ++column) {
    Vector<lanes> d[2][2] = {};
#pragma GCC unroll 4
    for (int y = 0; y < 2; ++y) {
      load(image[y] + 2 * column * lanes, d[y][0]);
      if (2 * column + 1 < row.width) load(image[y] + (2 * column + 1) * lanes, d[y][1]);
    }
    const Vector<lanes> rows[4][2] = {{d[0][0], d[0][1]},
                                      {d[0][0] + d[1][0], d[0][1] + d[1][1]},
                                      {d[0][0] - d[1][0], d[0][1] - d[1][1]},
                                      {-d[1][0], -d[1][1]}};
    float* tile = row.tiles + column * row.tile_step;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i, tile += 4 * row.place_step) {
      store(rows[i][0], tile);
      store(rows[i][0] + rows[i][1], tile + row.place_step);
      store(rows[i][0] - rows[i][1], tile + 2 * row.place_step);
      store(-rows[i][1], tile + 3 * row.place_step);
    }
  }
}

EVENSTEP_MULTIVERSION void transform_input_row(const TileRow& row, const float* const (&image)[4],
                                               float* rows) {
  row.lanes == 16 ? transform_input<16>(row, image, rows) : transform_input<8>(row, image, rows);
}

EVENSTEP_MULTIVERSION void transform_output_row(const TileRow& row, const float* biases,
                                                float* const (&image)[2]) {
  row.lanes == 16 ? transform_output<16>(row, biases, image)
                  : transform_output<8>(row, biases, image);
}

EVENSTEP_MULTIVERSION void transform_gradient_row(const TileRow& row,
                                                  const float* const (&image)[2]) {
  row.lanes == 16 ? transform_gradient<16>(row, image) : transform_gradient<8>(row, image);
}

/// G g G', of as many windows as a vector has lanes: places x place_step from taps x lanes.
template <int lanes>
EVENSTEP_INLINE void transform_windows(const float* windows, float* to, std::int64_t place_step) {
  Vector<lanes> rows[4][3];
#pragma GCC unroll 4
  for (int x = 0; x < 3; ++x) {
    Vector<lanes> g[3];
#pragma GCC unroll 4
    for (int y = 0; y < 3; ++y) load(windows + (3 * y + x) * lanes, g[y]);
    rows[0][x] = g[0];
    rows[1][x] = 0.5f * (g[0] + g[1] + g[2]);
    rows[2][x] = 0.5f * (g[0] - g[1] + g[2]);
    rows[3][x] = g[2];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, to += 4 * place_step) {
    const Vector<lanes>(&g)[3] = rows[i];
    store(g[0], to);
    store(0.5f * (g[0] + g[1] + g[2]), to + place_step);
    store(0.5f * (g[0] - g[1] + g[2]), to + 2 * place_step);
    store(g[2], to + 3 * place_step);
  }
}

/// G' u G, the other way.
template <int lanes>
EVENSTEP_INLINE void transform_window_gradients(const float* from, std::int64_t place_step,
                                                float* windows) {
  Vector<lanes> rows[3][4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    Vector<lanes> u[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) load(from + (4 * i + k) * place_step, u[i]);
    rows[0][k] = u[0] + 0.5f * (u[1] + u[2]);
    rows[1][k] = 0.5f * (u[1] - u[2]);
    rows[2][k] = 0.5f * (u[1] + u[2]) + u[3];
  }
#pragma GCC unroll 4
  for (int y = 0; y < 3; ++y, windows += 3 * lanes) {
    const Vector<lanes>(&u)[4] = rows[y];
    store(u[0] + 0.5f * (u[1] + u[2]), windows);
    store(0.5f * (u[1] - u[2]), windows + lanes);
    store(0.5f * (u[1] + u[2]) + u[3], windows + 2 * lanes);
  }
}

EVENSTEP_MULTIVERSION void transform_windows(std::int64_t lanes, const float* windows, float* to,
                                             std::int64_t place_step) {
  lanes == 16 ? transform_windows<16>(windows, to, place_step)
              : transform_windows<8>(windows, to, place_step);
}

EVENSTEP_MULTIVERSION void transform_window_gradients(std::int64_t lanes, const float* from,
                                                      std::int64_t place_step, float* windows) {
  lanes == 16 ? transform_window_gradients<16>(from, place_step, windows)
              : transform_window_gradients<8>(from, place_step, windows);
}

/// Where the weights between an input channel and a block of output channels begin, at the first
/// place.
std::int64_t weights_at(std::int64_t inputs, std::int64_t outputs, std::int64_t lanes,
                        std::int64_t input, std::int64_t block) {
  const std::int64_t pair = pair_of(outputs / lanes);
  return (block / pair * inputs + input) * pair * lanes + block % pair * lanes;
}

}  // namespace

std::optional<Winograd::Shape> Winograd::shape_for(const Context& context, const Tensor& input,
                                                   const Node& convolution) {
  // With AVX-512 it was not measured yet.
  if (context.dtype != Dtype::f32 || !has_avx2() || has_avx512()) return std::nullopt;
  const SampleShape& in = convolution.input_shapes[0];
  const Shape shape{8, in.channels, convolution.output_shape.channels, in.height, in.width};
  const bool fits = convolution.spec.window == square(3, 1, 1) && shape.inputs % shape.lanes == 0 &&
                    shape.outputs % shape.lanes == 0 && shape.inputs <= most_channels &&
                    shape.outputs <= most_channels &&
                    layout_of(input.values[0].get_desc()) == layout(shape);
  return fits ? std::optional(shape) : std::nullopt;
}

dnnl::memory::format_tag Winograd::layout(const Shape& shape) {
  return shape.lanes == 16 ? dnnl::memory::format_tag::nChw16c : dnnl::memory::format_tag::nChw8c;
}

Winograd::Winograd(Context& context, const Shape& shape, Passes passes)
    : shape_(shape),
      tile_rows_((shape.height + 1) / 2),
      tile_columns_((shape.width + 1) / 2),
      passes_(passes),
      zeros_(static_cast<std::size_t>(shape.width * shape.lanes)) {
  const std::int64_t channels = std::max(shape.inputs, shape.outputs);
  strip_ = std::max<std::int64_t>(1, strip_floats / (2 * places * channels * tile_columns_));
  forward_ = make_convolution(context, shape.inputs, shape.outputs);
  if (passes == Passes::both) {
    backward_ = make_convolution(context, shape.outputs, shape.inputs);
    weight_sums_ = make_convolution(context, shape.inputs, shape.outputs).weights;
  }
  scratch_floats_ =
      2 * places * tiles(strip_) * channels + 4 * (2 * tile_columns_ + 2) * most_lanes;
  const dnnl::memory::desc desc({omp_get_max_threads(), scratch_floats_},
                                dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  scratch_ = context.plan.view(context.scratchpad, desc);
}

Winograd::Convolution Winograd::make_convolution(Context& context, std::int64_t inputs,
                                                 std::int64_t outputs) {
  const dnnl::memory::desc desc({places, inputs, outputs}, dnnl::memory::data_type::f32,
                                dnnl::memory::format_tag::abc);
  return {inputs, outputs, context.plan.view(context.plan.new_region(), desc)};
}

Winograd::Scratch Winograd::scratch() const {
  float* begin = data<float>(scratch_) + omp_get_thread_num() * scratch_floats_;
  const std::int64_t half = places * tiles(strip_) * std::max(shape_.inputs, shape_.outputs);
  return {begin, begin + half, begin + 2 * half};
}

void Winograd::load(const float* weights) {
  transform_weights(weights, false);
  if (passes_ == Passes::both) transform_weights(weights, true);
}

/// To the weights of forward_, or turned around to those of backward_.
void Winograd::transform_weights(const float* weights, bool backward) {
  const Convolution& to = backward ? backward_ : forward_;
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t place_step = to.inputs * to.outputs;
  // From one input or output channel of `to` to the next.
  const std::int64_t input_step = taps * (backward ? shape_.inputs : 1);
  const std::int64_t output_step = taps * (backward ? 1 : shape_.inputs);
  float windows[taps * most_lanes] = {};
  for (std::int64_t block = 0; block < to.outputs / lanes; ++block) {
    for (std::int64_t input = 0; input < to.inputs; ++input) {
      for (std::int64_t i = 0; i < lanes; ++i) {
        const float* window = weights + (block * lanes + i) * output_step + input * input_step;
        for (int tap = 0; tap < taps; ++tap)
          windows[tap * lanes + i] = window[backward ? taps - 1 - tap : tap];
      }
      const std::int64_t at = weights_at(to.inputs, to.outputs, lanes, input, block);
      transform_windows(lanes, windows, data<float>(to.weights) + at, place_step);
    }
  }
}

void Winograd::forward(const float* input, const float* biases, std::int64_t samples,
                       float* output) {
  convolve(forward_, input, biases, samples, output);
}

void Winograd::backward_input(const float* output_gradients, std::int64_t samples,
                              float* input_gradients) {
  convolve(backward_, output_gradients, nullptr, samples, input_gradients);
}

void Winograd::transform_inputs(const float* input, std::int64_t channels, std::int64_t row,
                                std::int64_t count, const Scratch& to) const {
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t image_row = shape_.width * lanes;
  for (std::int64_t r = row; r < row + count; ++r) {
    const std::int64_t sample = r / tile_rows_;
    const std::int64_t top = 2 * (r % tile_rows_) - 1;
    for (std::int64_t block = 0; block < channels / lanes; ++block) {
      const float* plane = input + (sample * channels / lanes + block) * shape_.height * image_row;
      const float* image[4];
      for (int i = 0; i < 4; ++i) {
        const bool inside = top + i >= 0 && top + i < shape_.height;
        image[i] = inside ? plane + (top + i) * image_row : zeros_.data();
      }
      transform_input_row({lanes, shape_.width, tile_columns_,
                           to.inputs + tiles(r - row) * channels + block * lanes,
                           tiles(count) * channels, channels},
                          image, to.rows);
    }
  }
}

void Winograd::transform_outputs(const Scratch& from, std::int64_t channels, const float* biases,
                                 std::int64_t row, std::int64_t count, float* output) const {
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t blocks = channels / lanes;
  const std::int64_t image_row = shape_.width * lanes;
  for (std::int64_t r = row; r < row + count; ++r) {
    const std::int64_t top = 2 * (r % tile_rows_);
    for (std::int64_t block = 0; block < blocks; ++block) {
      float* first = output + ((r / tile_rows_ * blocks + block) * shape_.height + top) * image_row;
      float* const image[2] = {first, top + 1 < shape_.height ? first + image_row : nullptr};
      transform_output_row({lanes, shape_.width, tile_columns_,
                            from.outputs + (block * tiles(count) + tiles(r - row)) * lanes,
                            tiles(count) * channels, lanes},
                           biases != nullptr ? biases + block * lanes : nullptr, image);
    }
  }
}

void Winograd::convolve(const Convolution& convolution, const float* input, const float* biases,
                        std::int64_t samples, float* output) {
  const std::int64_t inputs = convolution.inputs;
  const std::int64_t outputs = convolution.outputs;
  const std::int64_t rows = samples * tile_rows_;
  const auto run_strip = [&](std::int64_t row) {
    const std::int64_t count = std::min(strip_, rows - row);
    const Scratch own = scratch();
    transform_inputs(input, inputs, row, count, own);
    for (std::int64_t place = 0; place < places; ++place) {
      multiply({shape_.lanes, inputs, outputs / shape_.lanes, tiles(count),
                own.inputs + place * tiles(count) * inputs,
                own.outputs + place * tiles(count) * outputs,
                data<float>(convolution.weights) + place * inputs * outputs});
    }
    transform_outputs(own, outputs, biases, row, count, output);
  };
  const std::int64_t strips = (rows + strip_ - 1) / strip_;
  loops::split_over_threads(strips, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t strip = first; strip < last; ++strip) run_strip(strip * strip_);
  });
}

void Winograd::backward_weights(const float* input, const float* output_gradients,
                                std::int64_t samples, Network::Pass pass, float* gradients) {
  const std::int64_t inputs = shape_.inputs;
  const std::int64_t outputs = shape_.outputs;
  const std::int64_t lanes = shape_.lanes;
  auto* sums = data<float>(weight_sums_);
  if (pass.first) std::fill_n(sums, places * inputs * outputs, 0.0f);
  const std::int64_t blocks = outputs / lanes;
  const std::int64_t pair = pair_of(blocks);
  loops::split_over_threads(blocks / pair, 1, [&](std::int64_t first, std::int64_t last) {
    sum_weights(input, output_gradients, samples, first * pair, last * pair);
  });
  if (!pass.last) return;
  float windows[taps * most_lanes] = {};
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t channel = 0; channel < inputs; ++channel) {
      transform_window_gradients(lanes, sums + weights_at(inputs, outputs, lanes, channel, block),
                                 inputs * outputs, windows);
      for (std::int64_t i = 0; i < lanes; ++i) {
        float* window = gradients + ((block * lanes + i) * inputs + channel) * taps;
        for (int tap = 0; tap < taps; ++tap) window[tap] = windows[tap * lanes + i];
      }
    }
  }
}

/// For blocks [first, last) of channels.
void Winograd::transform_gradients(const float* output_gradients, std::int64_t first,
                                   std::int64_t last, std::int64_t row, std::int64_t count,
                                   const Scratch& to) const {
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t blocks = shape_.outputs / lanes;
  const std::int64_t image_row = shape_.width * lanes;
  for (std::int64_t r = row; r < row + count; ++r) {
    const std::int64_t top = 2 * (r % tile_rows_);
    for (std::int64_t block = first; block < last; ++block) {
      const float* upper =
          output_gradients + ((r / tile_rows_ * blocks + block) * shape_.height + top) * image_row;
      const float* const image[2] = {upper,
                                     top + 1 < shape_.height ? upper + image_row : zeros_.data()};
      transform_gradient_row({lanes, shape_.width, tile_columns_,
                              to.outputs + (block * tiles(count) + tiles(r - row)) * lanes,
                              tiles(count) * shape_.outputs, lanes},
                             image);
    }
  }
}

/// For blocks [first, last) of output channels.
void Winograd::sum_weights(const float* input, const float* output_gradients, std::int64_t samples,
                           std::int64_t first, std::int64_t last) {
  const std::int64_t inputs = shape_.inputs;
  const std::int64_t outputs = shape_.outputs;
  const std::int64_t rows = samples * tile_rows_;
  const Scratch own = scratch();
  for (std::int64_t row = 0; row < rows; row += strip_) {
    const std::int64_t count = std::min(strip_, rows - row);
    transform_inputs(input, inputs, row, count, own);
    transform_gradients(output_gradients, first, last, row, count, own);
    for (std::int64_t place = 0; place < places; ++place) {
      sum_products(
          {shape_.lanes, inputs, outputs / shape_.lanes, tiles(count),
           own.inputs + place * tiles(count) * inputs, own.outputs + place * tiles(count) * outputs,
           data<float>(weight_sums_) + place * inputs * outputs},
          first, last);
    }
  }
}

}  // namespace evenstep::kernels::onednn
