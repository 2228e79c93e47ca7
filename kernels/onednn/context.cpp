#include "kernels/onednn/context.h"

#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace evenstep::kernels::onednn {

Call::Call(dnnl::primitive primitive, std::vector<Argument> arguments)
    : primitive_(std::move(primitive)), keep_alive_(std::move(arguments)) {
  for (const Argument& argument : keep_alive_) {
    arguments_.push_back({argument.name, argument.memory.get()});
  }
}

void Call::run(const dnnl::stream& stream) const {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()),
                             arguments_.data()),
      "oneDNN could not execute a primitive");
}

Context::Context(const ChunkMenu& chunk_menu, Dtype compute_dtype)
    : menu(chunk_menu),
      dtype(compute_dtype),
      type(dtype == Dtype::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16),
      engine(dnnl::engine::kind::cpu, 0),
      stream(engine),
      plan(engine),
      scratchpad(plan.new_region()),
      weight_part(plan.new_region()),
      bias_part(plan.new_region()),
      product_scratch(plan.new_region()) {
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
}

Call Context::bind(const dnnl::primitive_desc_base& desc, std::vector<Call::Argument> arguments) {
  arguments.push_back({DNNL_ARG_SCRATCHPAD, plan.view(scratchpad, desc.scratchpad_desc())});
  return {dnnl::primitive(desc.get()), std::move(arguments)};
}

Call Context::reorder(const dnnl::memory& from, const dnnl::memory& to) {
  const dnnl::reorder::primitive_desc desc(engine, from.get_desc(), engine, to.get_desc(),
                                           attributes);
  return bind(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Tensor::add_values(MemoryPlan& plan, const dnnl::memory::desc& desc) {
  values.push_back(plan.view(values_region, desc));
  counts.push_back(element_count(desc));
}

void Tensor::add_gradients(MemoryPlan& plan, const dnnl::memory::desc& desc) {
  gradients.push_back(plan.view(gradients_region, desc));
  gradient_bytes.push_back(desc.get_size());
}

Kept::Kept(Context& context, std::size_t count) {
  const MemoryPlan::Region region = context.plan.new_region();
  context.plan.keep(region);
  values_ = context.plan.view(region, {{static_cast<dnnl::memory::dim>(count)},
                                       dnnl::memory::data_type::f32,
                                       dnnl::memory::format_tag::a});
}

void copy_gradients(const Tensor& from, const Tensor& to, std::size_t size) {
  const void* source = from.gradients[size].get_data_handle();
  void* target = to.gradients[size].get_data_handle();
  if (source != target) std::memcpy(target, source, from.gradient_bytes[size]);
}

dnnl::memory::format_tag layout_of(const dnnl::memory::desc& desc) {
  using enum dnnl::memory::format_tag;
  for (auto tag : {nchw, nChw16c, nChw8c, nhwc}) {
    if (desc == dnnl::memory::desc(desc.get_dims(), desc.get_data_type(), tag)) return tag;
  }
  throw std::logic_error("oneDNN chose an activation layout that Evenstep's own loops do not know");
}

std::int64_t element_count(const dnnl::memory::desc& desc) {
  return static_cast<std::int64_t>(desc.get_size() /
                                   dnnl::memory::data_type_size(desc.get_data_type()));
}

bool is_reference(const dnnl::primitive_desc_base& desc) {
  return std::string_view(desc.impl_info_str()).starts_with("ref");
}

}  // namespace evenstep::kernels::onednn
