#include "kernels/onednn/gelu.h"

#include "kernels/onednn/exponential.h"
#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {
namespace {

constexpr std::int64_t grain = 8192;  // elements worth a thread

/// Values become gelu(values), `slopes` (where the values come from) their derivative.
template <typename T>
EVENSTEP_INLINE void gelu_body(T* __restrict slopes, T* __restrict values, std::int64_t count) {
  constexpr float twice_root = 1.5957691216F;  // 2 sqrt(2/pi)
  constexpr float cubic = 0.044715F;
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = widen(slopes[i]);
    const float square = x * x;
    const float sigmoid = 1 / (1 + exponential(-twice_root * x * (1 + cubic * square)));
    const float y = x * sigmoid;
    narrow(y, values[i]);
    narrow(sigmoid + y * (1 - sigmoid) * twice_root * (1 + 3 * cubic * square), slopes[i]);
  }
}

EVENSTEP_MULTIVERSION void gelu(float* slopes, float* values, std::int64_t count) {
  gelu_body(slopes, values, count);
}
EVENSTEP_MULTIVERSION void gelu(Bf16* slopes, Bf16* values, std::int64_t count) {
  gelu_body(slopes, values, count);
}

template <typename T>
EVENSTEP_INLINE void multiply_body(const T* __restrict slopes, T* __restrict gradients,
                                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    narrow(widen(gradients[i]) * widen(slopes[i]), gradients[i]);
}

EVENSTEP_MULTIVERSION void multiply(const float* slopes, float* gradients, std::int64_t count) {
  multiply_body(slopes, gradients, count);
}
EVENSTEP_MULTIVERSION void multiply(const Bf16* slopes, Bf16* gradients, std::int64_t count) {
  multiply_body(slopes, gradients, count);
}

template <typename T>
void forward_as(const dnnl::memory& slopes, const dnnl::memory& values, std::int64_t count) {
  loops::split_over_threads(count, grain, [&](std::int64_t first, std::int64_t last) {
    gelu(data<T>(slopes) + first, data<T>(values) + first, last - first);
  });
}

template <typename T>
void backward_as(const dnnl::memory& slopes, const dnnl::memory& gradients, std::int64_t count) {
  loops::split_over_threads(count, grain, [&](std::int64_t first, std::int64_t last) {
    multiply(data<T>(slopes) + first, data<T>(gradients) + first, last - first);
  });
}

}  // namespace

Gelu::Gelu(Context& context, const Tensor& input)
    : input_(input), f32_(context.dtype == Dtype::f32) {
  output_.shape = input.shape;
  output_.values_region = context.plan.new_region();
  output_.gradients_region = input.gradients_region;
  for (const dnnl::memory& values : input.values) {
    output_.add_values(context.plan, values.get_desc());
    if (input.has_gradients()) output_.add_gradients(context.plan, values.get_desc());
  }
}

void Gelu::forward(std::size_t size) {
  const std::int64_t count = output_.counts[size];
  if (f32_) return forward_as<float>(input_.values[size], output_.values[size], count);
  forward_as<Bf16>(input_.values[size], output_.values[size], count);
}

void Gelu::backward_input(std::size_t size) {
  const std::int64_t count = output_.counts[size];
  if (f32_) return backward_as<float>(input_.values[size], output_.gradients[size], count);
  backward_as<Bf16>(input_.values[size], output_.gradients[size], count);
}

}  // namespace evenstep::kernels::onednn
