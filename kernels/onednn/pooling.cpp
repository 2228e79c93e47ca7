#include "kernels/onednn/pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/onednn/loops.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

using Geometry = Pooling::Geometry;

template <typename T>
using Winner = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

/// Channels of a pixel that are worked on together.
constexpr std::int64_t most_lanes = 16;

/// Where a window stands along one dimension: positions [first, last) of the input.
struct Span {
  std::int64_t start;  // of the window, perhaps in the padding
  std::int64_t first;
  std::int64_t last;
  std::int64_t padded;  // positions of the window within the padded input
};
EVENSTEP_INLINE Span span_of(std::int64_t output, std::int64_t size, std::int64_t stride,
                             std::int64_t pad, std::int64_t length) {
  const std::int64_t start = output * stride - pad;
  return {start, std::max<std::int64_t>(start, 0), std::min(start + size, length),
          std::min(start + size, length + pad) - start};
}

/// Outputs [first, last] whose windows cover an input position.
struct Cover {
  std::int64_t first;
  std::int64_t last;
};
EVENSTEP_INLINE Cover cover_of(std::int64_t position, std::int64_t size, std::int64_t stride,
                               std::int64_t pad, std::int64_t outputs) {
  const std::int64_t after = position + pad - size;  // the last start that is too early
  return {after < 0 ? 0 : after / stride + 1, std::min((position + pad) / stride, outputs - 1)};
}

template <typename T>
EVENSTEP_INLINE void pool_max(const Geometry& g, const T* in, std::int64_t lanes, Span rows,
                              Span columns, T* out, Winner<T>* winner) {
  float best[most_lanes];
  Winner<T> index[most_lanes] = {};
  for (std::int64_t l = 0; l < lanes; ++l) best[l] = -std::numeric_limits<float>::infinity();
  for (std::int64_t y = rows.first; y < rows.last; ++y) {
    for (std::int64_t x = columns.first; x < columns.last; ++x) {
      const T* values = in + (y * g.width + x) * g.inner;
      const auto tap =
          static_cast<Winner<T>>((y - rows.start) * g.window.width + x - columns.start);
      for (std::int64_t l = 0; l < lanes; ++l) {
        const float value = widen(values[l]);
        const bool better = !(value <= best[l]) && !std::isnan(best[l]);  // a NaN wins, and stays
        best[l] = better ? value : best[l];
        index[l] = better ? tap : index[l];
      }
    }
  }
  for (std::int64_t l = 0; l < lanes; ++l) narrow(best[l], out[l]);
  for (std::int64_t l = 0; l < lanes; ++l) winner[l] = index[l];
}

template <typename T>
EVENSTEP_INLINE void pool_average(const Geometry& g, const T* in, std::int64_t lanes, Span rows,
                                  Span columns, T* out) {
  float sum[most_lanes] = {};
  for (std::int64_t y = rows.first; y < rows.last; ++y) {
    for (std::int64_t x = columns.first; x < columns.last; ++x) {
      const T* values = in + (y * g.width + x) * g.inner;
      for (std::int64_t l = 0; l < lanes; ++l) sum[l] += widen(values[l]);
    }
  }
  const float share = 1 / static_cast<float>(rows.padded * columns.padded);
  for (std::int64_t l = 0; l < lanes; ++l) narrow(sum[l] * share, out[l]);
}

/// Calls run(first lane, number of lanes); a constant number lets the compiler make one vector.
template <typename Run>
EVENSTEP_INLINE void for_lanes(std::int64_t inner, Run run) {
  std::int64_t lane = 0;
  for (; lane + most_lanes <= inner; lane += most_lanes) run(lane, most_lanes);
  if (lane < inner) run(lane, inner - lane);
}

/// Planes [first, last). `winner` is null for averages.
template <typename T>
EVENSTEP_INLINE void pool_planes(const Geometry& g, const T* in, T* out, Winner<T>* winner,
                                 std::int64_t first, std::int64_t last) {
  const Window& w = g.window;
  for (std::int64_t row = first * g.out_height; row < last * g.out_height; ++row) {
    const Span rows = span_of(row % g.out_height, w.height, w.stride, w.pad_height, g.height);
    const T* plane = in + row / g.out_height * g.height * g.width * g.inner;
    for (std::int64_t x = 0; x < g.out_width; ++x) {
      const Span columns = span_of(x, w.width, w.stride, w.pad_width, g.width);
      const std::int64_t to = (row * g.out_width + x) * g.inner;
      for_lanes(g.inner, [&](std::int64_t lane, std::int64_t lanes) __attribute__((always_inline)) {
        if (winner) {
          pool_max(g, plane + lane, lanes, rows, columns, out + to + lane, winner + to + lane);
        } else {
          pool_average(g, plane + lane, lanes, rows, columns, out + to + lane);
        }
      });
    }
  }
}

/// One input pixel's gradients: from all windows that cover it.
template <typename T>
EVENSTEP_INLINE void gather(const Geometry& g, const T* gradients, const Winner<T>* winner,
                            std::int64_t y, std::int64_t x, std::int64_t lanes, T* to) {
  const Window& w = g.window;
  const Cover rows = cover_of(y, w.height, w.stride, w.pad_height, g.out_height);
  const Cover columns = cover_of(x, w.width, w.stride, w.pad_width, g.out_width);
  float sum[most_lanes] = {};
  for (std::int64_t oy = rows.first; oy <= rows.last; ++oy) {
    const Span height = span_of(oy, w.height, w.stride, w.pad_height, g.height);
    for (std::int64_t ox = columns.first; ox <= columns.last; ++ox) {
      const Span width = span_of(ox, w.width, w.stride, w.pad_width, g.width);
      const std::int64_t at = (oy * g.out_width + ox) * g.inner;
      const auto tap = static_cast<Winner<T>>((y - height.start) * w.width + x - width.start);
      const float share = 1 / static_cast<float>(height.padded * width.padded);
      for (std::int64_t l = 0; l < lanes; ++l) {
        const float gradient = widen(gradients[at + l]);
        if (winner) {
          sum[l] += winner[at + l] == tap ? gradient : 0;
        } else {
          sum[l] += gradient * share;
        }
      }
    }
  }
  for (std::int64_t l = 0; l < lanes; ++l) narrow(sum[l], to[l]);
}

template <typename T>
EVENSTEP_INLINE void spread_planes(const Geometry& g, const T* gradients, const Winner<T>* winner,
                                   T* in, std::int64_t first, std::int64_t last) {
  for (std::int64_t row = first * g.height; row < last * g.height; ++row) {
    const std::int64_t plane = row / g.height * g.out_height * g.out_width * g.inner;
    for (std::int64_t x = 0; x < g.width; ++x) {
      T* to = in + (row * g.width + x) * g.inner;
      for_lanes(g.inner, [&](std::int64_t lane, std::int64_t lanes) __attribute__((always_inline)) {
        gather(g, gradients + plane + lane, winner ? winner + plane + lane : nullptr,
               row % g.height, x, lanes, to + lane);
      });
    }
  }
}

EVENSTEP_MULTIVERSION void pool_part(const Geometry& g, const float* in, float* out,
                                     Winner<float>* winner, std::int64_t first, std::int64_t last) {
  pool_planes(g, in, out, winner, first, last);
}
EVENSTEP_MULTIVERSION void pool_part(const Geometry& g, const Bf16* in, Bf16* out,
                                     Winner<Bf16>* winner, std::int64_t first, std::int64_t last) {
  pool_planes(g, in, out, winner, first, last);
}
EVENSTEP_MULTIVERSION void spread_part(const Geometry& g, const float* gradients,
                                       const Winner<float>* winner, float* in, std::int64_t first,
                                       std::int64_t last) {
  spread_planes(g, gradients, winner, in, first, last);
}
EVENSTEP_MULTIVERSION void spread_part(const Geometry& g, const Bf16* gradients,
                                       const Winner<Bf16>* winner, Bf16* in, std::int64_t first,
                                       std::int64_t last) {
  spread_planes(g, gradients, winner, in, first, last);
}

}  // namespace

Pooling::Pooling(Context& context, const Tensor& input, const Node& node)
    : input_(input),
      f32_(context.dtype == Dtype::f32),
      max_(node.spec.kind == LayerKind::max_pooling) {
  output_.shape = node.output_shape;
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  const MemoryPlan::Region winners_region = context.plan.new_region();
  context.plan.keep(winners_region);
  for (const dnnl::memory& in : input.values) {
    auto dims = in.get_desc().get_dims();
    dims[2] = output_.shape.height;
    dims[3] = output_.shape.width;
    const dnnl::memory::desc desc(dims, context.type, layout_of(in.get_desc()));
    output_.add_values(context.plan, desc);
    if (input.has_gradients()) output_.add_gradients(context.plan, desc);
    if (max_) winners_ = context.plan.view(winners_region, desc);  // in the end, of the largest
    planes_.push_back(dims[0] * channel_loops::view_of(in.get_desc()).blocks);
  }
  const std::int64_t inner = channel_loops::view_of(input.values.back().get_desc()).inner;
  geometry_ = {node.spec.window,     input.shape.height,  input.shape.width,
               output_.shape.height, output_.shape.width, inner};
}

template <typename T>
void Pooling::pool(std::size_t size) {
  Winner<T>* winner = max_ ? data<Winner<T>>(winners_) : nullptr;
  loops::split_over_threads(planes_[size], 4, [&](std::int64_t first, std::int64_t last) {
    pool_part(geometry_, data<T>(input_.values[size]), data<T>(output_.values[size]), winner, first,
              last);
  });
}

template <typename T>
void Pooling::spread(std::size_t size) {
  const Winner<T>* winner = max_ ? data<Winner<T>>(winners_) : nullptr;
  loops::split_over_threads(planes_[size], 4, [&](std::int64_t first, std::int64_t last) {
    spread_part(geometry_, data<T>(output_.gradients[size]), winner,
                data<T>(input_.gradients[size]), first, last);
  });
}

void Pooling::forward(std::size_t size) { f32_ ? pool<float>(size) : pool<Bf16>(size); }

void Pooling::backward_input(std::size_t size) { f32_ ? spread<float>(size) : spread<Bf16>(size); }

}  // namespace evenstep::kernels::onednn
