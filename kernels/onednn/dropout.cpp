#include "kernels/onednn/dropout.h"

#include <algorithm>
#include <cstring>

#include "kernels/hash.h"
#include "kernels/onednn/loops.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

struct Rule {
  std::uint32_t threshold;
  float scale;
};

EVENSTEP_INLINE float kept(float value, float scale) { return value * scale; }
EVENSTEP_INLINE Bf16 kept(Bf16 value, float scale) { return round_to_bf16(widen(value) * scale); }

/// One sample; elements are counted in channel, height, width order however they lie.
template <typename T>
EVENSTEP_INLINE void drop_sample(const channel_loops::View& view, std::uint32_t key, Rule rule,
                                 const T* from, T* to) {
  for (std::int64_t block = 0; block < view.blocks; ++block) {
    for (std::int64_t pixel = 0; pixel < view.pixels; ++pixel) {
      const std::int64_t at = (block * view.pixels + pixel) * view.inner;
      const auto first = static_cast<std::uint32_t>(block * view.inner * view.pixels + pixel);
      for (std::int64_t l = 0; l < view.inner; ++l) {
        const std::uint32_t element = first + static_cast<std::uint32_t>(l * view.pixels);
        const bool dropped = hash32(key + element) < rule.threshold;
        to[at + l] = dropped ? T{0} : kept(from[at + l], rule.scale);
      }
    }
  }
}

EVENSTEP_MULTIVERSION void drop_sample_of(const channel_loops::View& view, std::uint32_t key,
                                          Rule rule, const float* from, float* to) {
  drop_sample(view, key, rule, from, to);
}
EVENSTEP_MULTIVERSION void drop_sample_of(const channel_loops::View& view, std::uint32_t key,
                                          Rule rule, const Bf16* from, Bf16* to) {
  drop_sample(view, key, rule, from, to);
}

}  // namespace

Dropout::Dropout(Context& context, const Tensor& input, double rate, std::uint32_t layer,
                 bool in_place)
    : input_(input),
      f32_(context.dtype == Dtype::f32),
      context_(context),
      samples_(context.menu.sizes().begin(), context.menu.sizes().end()),
      view_(channel_loops::view_of(input.values.back().get_desc())),
      layer_(layer),
      threshold_(static_cast<std::uint32_t>(rate * 4294967296.0)),
      scale_(static_cast<float>(1 / (1 - rate))) {
  if (in_place) {
    output_ = input;
    return;
  }
  output_.shape = input.shape;
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  for (const dnnl::memory& values : input.values) {
    output_.add_values(context.plan, values.get_desc());
    if (input.has_gradients()) output_.add_gradients(context.plan, values.get_desc());
  }
}

void Dropout::drop(std::size_t size, const std::vector<dnnl::memory>& from,
                   const std::vector<dnnl::memory>& to) {
  const Rule rule{threshold_, scale_};
  const std::int64_t elements = view_.channels() * view_.pixels;
  for (std::int64_t s = 0; s < samples_[size]; ++s) {
    const std::uint64_t sample =
        context_.sample_keys[context_.first_sample + static_cast<std::size_t>(s)];
    const auto key = static_cast<std::uint32_t>(mix64(mix64(sample ^ context_.seed) + layer_));
    const std::int64_t at = s * elements;
    if (f32_) {
      drop_sample_of(view_, key, rule, data<float>(from[size]) + at, data<float>(to[size]) + at);
    } else {
      drop_sample_of(view_, key, rule, data<Bf16>(from[size]) + at, data<Bf16>(to[size]) + at);
    }
  }
}

void Dropout::forward(std::size_t size) { drop(size, input_.values, output_.values); }

void Dropout::evaluate(std::size_t size) {
  if (output_.values_region == input_.values_region) return;
  std::memcpy(output_.values[size].get_data_handle(), input_.values[size].get_data_handle(),
              static_cast<std::size_t>(output_.counts[size]) * (f32_ ? 4 : 2));
}

void Dropout::backward_input(std::size_t size) { drop(size, output_.gradients, input_.gradients); }

}  // namespace evenstep::kernels::onednn
