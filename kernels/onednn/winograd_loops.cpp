#include "kernels/onednn/winograd_loops.h"

#include <algorithm>

#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn::winograd_loops {
namespace {

constexpr std::int64_t most_together = 6;  // times two vectors: sums in 12 of AVX2's 16 registers

/// Calls run(first, count) on parts of [0, all), of at most most_together and of about one size.
template <typename Run>
EVENSTEP_INLINE void in_groups(std::int64_t all, Run run) {
  const std::int64_t groups = (all + most_together - 1) / most_together;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = all * g / groups;
    run(first, all * (g + 1) / groups - first);
  }
}

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
EVENSTEP_INLINE void sum_pairs(const Product& p) {
  for (std::int64_t block = 0; block < p.blocks; block += pair) {
    const float* outputs = p.output_values + block * p.tiles * lanes;
    in_groups(p.inputs, [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
      float* weights = p.weights + (block * p.inputs + first * pair) * lanes;
      with_count(count, [&]<int constant>() __attribute__((always_inline)) {
        sum_channels<lanes, pair, constant>(p, weights, p.input_values + first, outputs);
      });
    });
  }
}

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

}  // namespace

EVENSTEP_MULTIVERSION void multiply(const Product& p) {
  if (p.lanes == 16)
    pair_of(p.blocks) == 2 ? multiply_pairs<16, 2>(p) : multiply_pairs<16, 1>(p);
  else
    pair_of(p.blocks) == 2 ? multiply_pairs<8, 2>(p) : multiply_pairs<8, 1>(p);
}

EVENSTEP_MULTIVERSION void sum_products(const Product& p) {
  if (p.lanes == 16)
    pair_of(p.blocks) == 2 ? sum_pairs<16, 2>(p) : sum_pairs<16, 1>(p);
  else
    pair_of(p.blocks) == 2 ? sum_pairs<8, 2>(p) : sum_pairs<8, 1>(p);
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

}  // namespace evenstep::kernels::onednn::winograd_loops
