#include "kernels/onednn/channel_loops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn::channel_loops {
namespace {

template <int n>
struct Vector {
  typedef float Floats __attribute__((vector_size(4 * n)));
  typedef std::uint32_t Words __attribute__((vector_size(4 * n)));
  typedef std::uint16_t Halves __attribute__((vector_size(2 * n)));
  typedef std::int32_t Mask __attribute__((vector_size(4 * n)));
};

template <int n>
using Floats = typename Vector<n>::Floats;

// Vectors go by reference: how they would be passed by value depends on the instruction set.
template <int n>
EVENSTEP_INLINE void load(const float* from, Floats<n>& to) {
  std::memcpy(&to, from, sizeof(to));
}

template <int n>
EVENSTEP_INLINE void load(const Bf16* from, Floats<n>& to) {
  typename Vector<n>::Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  const auto words = __builtin_convertvector(halves, typename Vector<n>::Words) << 16;
  std::memcpy(&to, &words, sizeof(to));
}

template <int n>
EVENSTEP_INLINE void store(const Floats<n>& from, float* to) {
  std::memcpy(to, &from, sizeof(from));
}

/// Rounds to nearest, ties to even; a NaN stays one.
template <int n>
EVENSTEP_INLINE void store(const Floats<n>& from, Bf16* to) {
  typename Vector<n>::Words bits;
  std::memcpy(&bits, &from, sizeof(bits));
  const auto rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const auto quiet_nan = (bits >> 16) | 0x40;
  const auto words = (bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded;
  const auto halves = __builtin_convertvector(words, typename Vector<n>::Halves);
  std::memcpy(to, &halves, sizeof(halves));
}

constexpr int ways = 4;
constexpr std::int64_t run_pixels = 256;

/// Calls visit(offset, k) for each pixel of the group, k counting up to `ways` over and over: sums
/// kept apart by k do not wait for each other. Calls end_run after at most run_pixels of a sample.
template <typename Visit, typename EndRun, typename EndSample>
EVENSTEP_INLINE void for_each_pixel(const Column& c, std::int64_t stride, Visit visit,
                                    EndRun end_run, EndSample end_sample) {
  for (std::int64_t s = 0; s < c.samples; ++s) {
    std::int64_t at = s * c.sample_stride;
    for (std::int64_t p = 0; p < c.pixels;) {
      const std::int64_t end = std::min(p + run_pixels, c.pixels);
      for (; p + ways <= end; p += ways) {
#pragma GCC unroll 4
        for (int k = 0; k < ways; ++k) visit(at + k * stride, k);
        at += ways * stride;
      }
      for (; p < end; ++p, at += stride) visit(at, 0);
      end_run();
    }
    end_sample();
  }
}
template <typename Visit>
EVENSTEP_INLINE void for_each_pixel(const Column& c, std::int64_t stride, Visit visit) {
  for_each_pixel(c, stride, visit, [] {}, [] {});
}

/// A sum of many values in fp32. Those of a run are added up first, then the runs of a sample: to
/// add them one by one to what is large by then rounds all of them, and alike where they are equal.
template <int n>
struct Sum {
  Floats<n> of_run[ways] = {};
  Floats<n> of_sample = {};
  Floats<n> total = {};

  EVENSTEP_INLINE void end_run() {
    of_sample += (of_run[0] + of_run[1]) + (of_run[2] + of_run[3]);
    for (Floats<n>& part : of_run) part = Floats<n>{};
  }
  EVENSTEP_INLINE void end_sample() {
    total += of_sample;
    of_sample = Floats<n>{};
  }
};

/// for_each_pixel that ends the runs and samples of two sums.
template <int n, typename Visit>
EVENSTEP_INLINE void sum_pixels(const Column& c, std::int64_t stride, Sum<n>& a, Sum<n>& b,
                                Visit visit) {
  for_each_pixel(
      c, stride, visit,
      [&]() __attribute__((always_inline)) {
        a.end_run();
        b.end_run();
      },
      [&]() __attribute__((always_inline)) {
        a.end_sample();
        b.end_sample();
      });
}

template <int n, typename T>
EVENSTEP_INLINE void statistics_lanes(const Column& c, std::int64_t stride, const T* x, float* mean,
                                      float* variance) {
  // Differences from the first value: the variance of large values that are nearly equal survives.
  Floats<n> origin;
  load<n>(x, origin);
  Sum<n> sum;
  Sum<n> squares;
  sum_pixels<n>(c, stride, sum, squares,
                [&](std::int64_t at, int k) __attribute__((always_inline)) {
                  Floats<n> value;
                  load<n>(x + at, value);
                  value -= origin;
                  sum.of_run[k] += value;
                  squares.of_run[k] += value * value;
                });
  const float share = 1 / c.count();
  const Floats<n> centre = sum.total * share;
  const Floats<n> spread = squares.total * share - centre * centre;
  store<n>(origin + centre, mean);
  store<n>(spread < 0 ? Floats<n>{} : spread, variance);
}

template <int n, typename T>
EVENSTEP_INLINE void normalise_lanes(const Column& c, std::int64_t stride, const Affine& affine,
                                     const T* x, const T* residual, T* y) {
  Floats<n> scale;
  Floats<n> shift;
  load<n>(affine.scale, scale);
  load<n>(affine.shift, shift);
  const auto run = [&](auto with_residual, auto with_relu) __attribute__((always_inline)) {
    for_each_pixel(c, stride, [&](std::int64_t at, int) __attribute__((always_inline)) {
      Floats<n> value;
      load<n>(x + at, value);
      value = value * scale + shift;
      if constexpr (decltype(with_residual)::value) {
        Floats<n> other;
        load<n>(residual + at, other);
        value += other;
      }
      if constexpr (decltype(with_relu)::value) value = value < 0 ? Floats<n>{} : value;
      store<n>(value, y + at);
    });
  };
  if (residual) {
    affine.relu ? run(std::true_type(), std::true_type())
                : run(std::true_type(), std::false_type());
  } else {
    affine.relu ? run(std::false_type(), std::true_type())
                : run(std::false_type(), std::false_type());
  }
}

template <int n, typename T>
EVENSTEP_INLINE void gradient_sums_lanes(const Column& c, std::int64_t stride, const T* x,
                                         const T* y, T* gradients, const float* mean, float* sums,
                                         float* products) {
  Floats<n> centre;
  load<n>(mean, centre);
  Sum<n> sum;
  Sum<n> product;
  const auto run = [&](auto with_relu) __attribute__((always_inline)) {
    sum_pixels<n>(c, stride, sum, product,
                  [&](std::int64_t at, int k) __attribute__((always_inline)) {
                    Floats<n> gradient;
                    load<n>(gradients + at, gradient);
                    if constexpr (decltype(with_relu)::value) {
                      Floats<n> output;
                      load<n>(y + at, output);
                      gradient = output <= 0 ? Floats<n>{} : gradient;
                      store<n>(gradient, gradients + at);
                    }
                    Floats<n> value;
                    load<n>(x + at, value);
                    sum.of_run[k] += gradient;
                    product.of_run[k] += gradient * (value - centre);
                  });
  };
  y ? run(std::true_type()) : run(std::false_type());
  store<n>(sum.total, sums);
  store<n>(product.total, products);
}

template <int n, typename T>
EVENSTEP_INLINE void combine_lanes(const Column& c, std::int64_t stride, const Combination& factors,
                                   const T* x, const T* gradients, T* input_gradients) {
  Floats<n> of_gradient;
  Floats<n> of_x;
  Floats<n> constant;
  load<n>(factors.of_gradient, of_gradient);
  load<n>(factors.of_x, of_x);
  load<n>(factors.constant, constant);
  for_each_pixel(c, stride, [&](std::int64_t at, int) __attribute__((always_inline)) {
    Floats<n> value;
    Floats<n> gradient;
    load<n>(x + at, value);
    load<n>(gradients + at, gradient);
    store<n>(of_gradient * gradient + (of_x * value + constant), input_gradients + at);
  });
}

/// Calls run with the number of lanes and the distance of pixels, known while compiling where they
/// are the usual ones.
template <typename Run>
EVENSTEP_INLINE void with_lanes(const Column& c, Run run) {
  using Integer = std::int64_t;
  if (c.lanes == 16 && c.pixel_stride == 16) {
    run(std::integral_constant<int, 16>(), Integer{16});
  } else if (c.lanes == 16) {
    run(std::integral_constant<int, 16>(), c.pixel_stride);
  } else if (c.lanes == 8) {
    run(std::integral_constant<int, 8>(), c.pixel_stride);
  } else {
    run(std::integral_constant<int, 1>(), c.pixel_stride);
  }
}

}  // namespace

View view_of(const dnnl::memory::desc& desc) {
  using enum dnnl::memory::format_tag;
  const auto dims = desc.get_padded_dims();
  const auto tag = layout_of(desc);
  const std::int64_t inner = tag == nhwc ? dims[1] : tag == nChw16c ? 16 : tag == nChw8c ? 8 : 1;
  return {dims[1] / inner, dims[2] * dims[3], inner};
}

int lanes_of(const View& view) { return view.inner % 16 == 0 ? 16 : view.inner % 8 == 0 ? 8 : 1; }

EVENSTEP_MULTIVERSION void statistics(const Column& column, const float* x, float* mean,
                                      float* variance) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    statistics_lanes<lanes>(column, stride, x, mean, variance);
  });
}
EVENSTEP_MULTIVERSION void statistics(const Column& column, const Bf16* x, float* mean,
                                      float* variance) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    statistics_lanes<lanes>(column, stride, x, mean, variance);
  });
}

EVENSTEP_MULTIVERSION void normalise(const Column& column, const Affine& affine, const float* x,
                                     const float* residual, float* y) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    normalise_lanes<lanes>(column, stride, affine, x, residual, y);
  });
}
EVENSTEP_MULTIVERSION void normalise(const Column& column, const Affine& affine, const Bf16* x,
                                     const Bf16* residual, Bf16* y) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    normalise_lanes<lanes>(column, stride, affine, x, residual, y);
  });
}

EVENSTEP_MULTIVERSION void gradient_sums(const Column& column, const float* x, const float* y,
                                         float* gradients, const float* mean, float* sums,
                                         float* products) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    gradient_sums_lanes<lanes>(column, stride, x, y, gradients, mean, sums, products);
  });
}
EVENSTEP_MULTIVERSION void gradient_sums(const Column& column, const Bf16* x, const Bf16* y,
                                         Bf16* gradients, const float* mean, float* sums,
                                         float* products) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    gradient_sums_lanes<lanes>(column, stride, x, y, gradients, mean, sums, products);
  });
}

EVENSTEP_MULTIVERSION void combine(const Column& column, const Combination& factors, const float* x,
                                   const float* gradients, float* input_gradients) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    combine_lanes<lanes>(column, stride, factors, x, gradients, input_gradients);
  });
}
EVENSTEP_MULTIVERSION void combine(const Column& column, const Combination& factors, const Bf16* x,
                                   const Bf16* gradients, Bf16* input_gradients) {
  with_lanes(column, [&](auto lanes, std::int64_t stride) __attribute__((always_inline)) {
    combine_lanes<lanes>(column, stride, factors, x, gradients, input_gradients);
  });
}

}  // namespace evenstep::kernels::onednn::channel_loops
