#include "kernels/onednn/add.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {
namespace {

/// Copies where the two are not the same memory already.
template <typename T>
void copy(const dnnl::memory& from, const dnnl::memory& to, std::int64_t count) {
  if (data<T>(from) != data<T>(to)) std::copy_n(data<T>(from), count, data<T>(to));
}

template <typename T>
void add(const dnnl::memory& a, const dnnl::memory& b, const dnnl::memory& sum,
         std::int64_t count) {
  copy<T>(a, sum, count);
  loops::add(data<T>(b), data<T>(sum), count);
}

}  // namespace

Add::Add(Context& context, const Tensor& first, const Tensor& second, bool in_place)
    : first_(first), second_(second), f32_(context.dtype == Dtype::f32) {
  if (first.values.back().get_desc() != second.values.back().get_desc())
    throw std::logic_error("the two tensors to be added lie in different layouts");
  output_ = first;
  if (in_place) return;
  output_.values.clear();
  output_.gradients.clear();
  output_.counts.clear();
  output_.gradient_bytes.clear();
  output_.values_region = context.plan.new_region();
  output_.gradients_region = context.plan.new_region();
  for (const dnnl::memory& values : first.values) {
    output_.add_values(context.plan, values.get_desc());
    if (first.has_gradients() || second.has_gradients())
      output_.add_gradients(context.plan, values.get_desc());
  }
}

void Add::forward(std::size_t size) {
  const std::int64_t count = output_.counts[size];
  if (f32_) {
    add<float>(first_.values[size], second_.values[size], output_.values[size], count);
  } else {
    add<loops::Bf16>(first_.values[size], second_.values[size], output_.values[size], count);
  }
}

void Add::backward_input(std::size_t size) {
  for (const Tensor* input : {&first_, &second_}) {
    if (input->has_gradients()) copy_gradients(output_, *input, size);
  }
}

}  // namespace evenstep::kernels::onednn
