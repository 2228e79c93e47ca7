#include "kernels/onednn/max_pooling.h"

#include <algorithm>
#include <type_traits>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/vectors.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

/// Which of the four won, in a number as wide as the values: then all are vectors of one length.
template <typename T>
using Winner = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

template <int lanes>
using Wholes = decltype(Vector<lanes>{} < Vector<lanes>{});

template <int lanes>
EVENSTEP_INLINE void load_values(const float* from, Vector<lanes>& values) {
  load(from, values);
}
template <int lanes>
EVENSTEP_INLINE void load_values(const Bf16* from, Vector<lanes>& values) {
  for (int lane = 0; lane < lanes; ++lane) values[lane] = widen(from[lane]);
}

/// `lanes` channels of an output pixel. A NaN wins over all numbers, and the first over all others.
/// In vectors, since with choices in it GCC makes no vectors of a plain loop.
template <int lanes, typename T>
EVENSTEP_INLINE void pool_lanes(const T* top, const T* bottom, std::int64_t inner, T* out,
                                Winner<T>* winner) {
  const T* candidates[] = {top, top + inner, bottom, bottom + inner};
  Vector<lanes> best, value;
  load_values<lanes>(candidates[0], best);
  Wholes<lanes> index = {};
#pragma GCC unroll 3
  for (int k = 1; k < 4; ++k) {
    load_values<lanes>(candidates[k], value);
    const Wholes<lanes> number = best == best;  // NOLINT(misc-redundant-expression): no NaN
    const Wholes<lanes> better = ~(value <= best) & number;
    best = better ? value : best;
    index = better ? Wholes<lanes>{} + k : index;
  }
  for (int lane = 0; lane < lanes; ++lane) narrow(best[lane], out[lane]);
  for (int lane = 0; lane < lanes; ++lane) winner[lane] = static_cast<Winner<T>>(index[lane]);
}

/// One output pixel: `inner` channels.
template <typename T>
EVENSTEP_INLINE void pool_pixel(const T* top, const T* bottom, std::int64_t inner, T* out,
                                Winner<T>* winner) {
  std::int64_t i = 0;
  for (; i + 8 <= inner; i += 8) pool_lanes<8>(top + i, bottom + i, inner, out + i, winner + i);
  for (; i < inner; ++i) pool_lanes<1>(top + i, bottom + i, inner, out + i, winner + i);
}

/// Output rows [first, last), counted over all planes.
template <typename T>
EVENSTEP_INLINE void pool_rows(const Planes& p, std::int64_t inner, const T* in, T* out,
                               Winner<T>* winner, std::int64_t first, std::int64_t last) {
  const std::int64_t out_height = p.height / 2;
  const std::int64_t out_width = p.width / 2;
  for (std::int64_t row = first; row < last; ++row) {
    const T* top = in + (row / out_height * p.height + row % out_height * 2) * p.width * inner;
    for (std::int64_t x = 0; x < out_width; ++x) {
      const std::int64_t to = (row * out_width + x) * inner;
      pool_pixel(top + 2 * x * inner, top + (p.width + 2 * x) * inner, inner, out + to,
                 winner + to);
    }
  }
}

template <typename T>
EVENSTEP_INLINE void spread_pixel(const T* __restrict gradient, const Winner<T>* __restrict winner,
                                  std::int64_t inner, T* __restrict top, T* __restrict bottom) {
  for (std::int64_t i = 0; i < inner; ++i) {
    top[i] = winner[i] == 0 ? gradient[i] : T{0};
    top[i + inner] = winner[i] == 1 ? gradient[i] : T{0};
    bottom[i] = winner[i] == 2 ? gradient[i] : T{0};
    bottom[i + inner] = winner[i] == 3 ? gradient[i] : T{0};
  }
}

template <typename T>
EVENSTEP_INLINE void spread_rows(const Planes& p, std::int64_t inner, const T* gradient,
                                 const Winner<T>* winner, T* in, std::int64_t first,
                                 std::int64_t last) {
  const std::int64_t out_height = p.height / 2;
  const std::int64_t out_width = p.width / 2;
  for (std::int64_t row = first; row < last; ++row) {
    T* top = in + (row / out_height * p.height + row % out_height * 2) * p.width * inner;
    for (std::int64_t x = 0; x < out_width; ++x) {
      const std::int64_t from = (row * out_width + x) * inner;
      spread_pixel(gradient + from, winner + from, inner, top + 2 * x * inner,
                   top + (p.width + 2 * x) * inner);
    }
  }
}

// A constant `inner` lets the compiler make one vector of the channels.
template <typename T>
EVENSTEP_INLINE void pool_body(const Planes& p, const T* in, T* out, Winner<T>* winner,
                               std::int64_t first, std::int64_t last) {
  if (p.inner == 16) {
    pool_rows(p, 16, in, out, winner, first, last);
  } else if (p.inner == 8) {
    pool_rows(p, 8, in, out, winner, first, last);
  } else {
    pool_rows(p, p.inner, in, out, winner, first, last);
  }
}

template <typename T>
EVENSTEP_INLINE void spread_body(const Planes& p, const T* gradient, const Winner<T>* winner, T* in,
                                 std::int64_t first, std::int64_t last) {
  if (p.inner == 16) {
    spread_rows(p, 16, gradient, winner, in, first, last);
  } else if (p.inner == 8) {
    spread_rows(p, 8, gradient, winner, in, first, last);
  } else {
    spread_rows(p, p.inner, gradient, winner, in, first, last);
  }
}

EVENSTEP_MULTIVERSION void pool(const Planes& p, const float* in, float* out, Winner<float>* winner,
                                std::int64_t first, std::int64_t last) {
  pool_body(p, in, out, winner, first, last);
}
EVENSTEP_MULTIVERSION void pool(const Planes& p, const Bf16* in, Bf16* out, Winner<Bf16>* winner,
                                std::int64_t first, std::int64_t last) {
  pool_body(p, in, out, winner, first, last);
}
EVENSTEP_MULTIVERSION void spread(const Planes& p, const float* gradient,
                                  const Winner<float>* winner, float* in, std::int64_t first,
                                  std::int64_t last) {
  spread_body(p, gradient, winner, in, first, last);
}
EVENSTEP_MULTIVERSION void spread(const Planes& p, const Bf16* gradient, const Winner<Bf16>* winner,
                                  Bf16* in, std::int64_t first, std::int64_t last) {
  spread_body(p, gradient, winner, in, first, last);
}

Planes planes_of(const dnnl::memory::desc& desc) {
  using enum dnnl::memory::format_tag;
  const auto dims = desc.get_padded_dims();
  const auto tag = layout_of(desc);
  const std::int64_t inner = tag == nhwc ? dims[1] : tag == nChw16c ? 16 : tag == nChw8c ? 8 : 1;
  return {dims[0] * dims[1] / inner, dims[2], dims[3], inner};
}

template <typename T>
void pool_all(const Planes& p, const dnnl::memory& in, const dnnl::memory& out,
              const dnnl::memory& winner) {
  const std::int64_t rows = p.planes * (p.height / 2);
  loops::split_over_threads(rows, 64, [&](std::int64_t first, std::int64_t last) {
    pool(p, data<T>(in), data<T>(out), data<Winner<T>>(winner), first, last);
  });
}

template <typename T>
void spread_all(const Planes& p, const dnnl::memory& out, const dnnl::memory& winner,
                const dnnl::memory& in, std::int64_t in_count) {
  // A dropped last row or column has no gradient.
  if (p.height % 2 != 0 || p.width % 2 != 0) {
    std::fill_n(data<T>(in), in_count, T{0});
  }
  const std::int64_t rows = p.planes * (p.height / 2);
  loops::split_over_threads(rows, 64, [&](std::int64_t first, std::int64_t last) {
    spread(p, data<T>(out), data<Winner<T>>(winner), data<T>(in), first, last);
  });
}

}  // namespace

MaxPooling::MaxPooling(Context& context, const Tensor& input, bool gradients)
    : input_(input), f32_(context.dtype == Dtype::f32) {
  output_.shape = {input.shape.channels, input.shape.height / 2, input.shape.width / 2};
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  const MemoryPlan::Region winners_region = context.plan.new_region();
  context.plan.keep(winners_region);
  for (const dnnl::memory& in : input.values) {
    auto dims = in.get_desc().get_dims();
    dims[2] /= 2;
    dims[3] /= 2;
    const dnnl::memory::desc desc(dims, context.type, layout_of(in.get_desc()));
    output_.add_values(context.plan, desc);
    if (gradients) output_.add_gradients(context.plan, desc);
    planes_.push_back(planes_of(in.get_desc()));
    winners_ = context.plan.view(winners_region, desc);  // in the end, of the largest size
  }
}

void MaxPooling::forward(std::size_t size) {
  if (f32_) {
    pool_all<float>(planes_[size], input_.values[size], output_.values[size], winners_);
  } else {
    pool_all<Bf16>(planes_[size], input_.values[size], output_.values[size], winners_);
  }
}

void MaxPooling::backward_input(std::size_t size) {
  if (f32_) {
    spread_all<float>(planes_[size], output_.gradients[size], winners_, input_.gradients[size],
                      input_.counts[size]);
  } else {
    spread_all<Bf16>(planes_[size], output_.gradients[size], winners_, input_.gradients[size],
                     input_.counts[size]);
  }
}

}  // namespace evenstep::kernels::onednn
