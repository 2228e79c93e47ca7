#include "kernels/onednn/gradient_sum.h"

#include "kernels/onednn/loops.h"

namespace evenstep::kernels::onednn {

GradientSum::GradientSum(Context& context, MemoryPlan::Region part,
                         const dnnl::memory::desc& written, const dnnl::memory::desc& plain,
                         const dnnl::memory::desc& argument)
    : is_plain_(written == plain),
      count_(element_count(written)),
      sum_(context.plan.view(context.plan.new_region(), written)),
      part_(context.plan.view(part, written)),
      target_(argument, context.engine, DNNL_MEMORY_NONE),
      plain_(plain, context.engine, DNNL_MEMORY_NONE) {
  if (!is_plain_) to_plain_ = context.reorder(sum_, plain_);
}

void GradientSum::begin(Network::Pass pass, float* plain_gradients) {
  void* place = pass.first ? sum_.get_data_handle() : part_.get_data_handle();
  if (is_plain_ && pass.last) place = plain_gradients;
  target_.set_data_handle(place);
}

void GradientSum::end(const dnnl::stream& stream, Network::Pass pass, float* plain_gradients) {
  if (is_plain_ && pass.last) {
    if (!pass.first) loops::add(data<float>(sum_), plain_gradients, count_);
    return;
  }
  if (!pass.first) loops::add(data<float>(part_), data<float>(sum_), count_);
  if (!pass.last) return;
  plain_.set_data_handle(plain_gradients);
  to_plain_.run(stream);
}

}  // namespace evenstep::kernels::onednn
