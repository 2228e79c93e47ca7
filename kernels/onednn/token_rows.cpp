#include "kernels/onednn/token_rows.h"

namespace evenstep::kernels::onednn {

Tensor make_token_rows(Context& context, const SampleShape& shape, dnnl::memory::data_type values) {
  using Desc = dnnl::memory::desc;
  constexpr auto rows = dnnl::memory::format_tag::nhwc;
  Tensor tensor;
  tensor.shape = shape;
  tensor.values_region = context.plan.new_region();
  tensor.gradients_region = context.plan.new_region();
  for (int samples : context.menu.sizes()) {
    const dnnl::memory::dims dims{samples, shape.channels, shape.height, shape.width};
    tensor.add_values(context.plan, Desc(dims, values, rows));
    tensor.add_gradients(context.plan, Desc(dims, context.type, rows));
  }
  return tensor;
}

}  // namespace evenstep::kernels::onednn
