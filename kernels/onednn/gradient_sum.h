// The sum of one parameter tensor's gradients over the chunks of a share, kept in the layout that
// the backward primitive writes and turned into the plain one only once a share.
#pragma once

#include "kernels/onednn/context.h"

namespace evenstep::kernels::onednn {

class GradientSum {
 public:
  GradientSum() = default;
  /// `written` and `plain` describe the same fp32 tensor, as the backward primitive writes it and
  /// as the caller wants it. `part` is a region to which this chunk's gradients may be written.
  /// `argument` is how the primitive itself describes the bytes of `written`.
  GradientSum(Context& context, MemoryPlan::Region part, const dnnl::memory::desc& written,
              const dnnl::memory::desc& plain, const dnnl::memory::desc& argument);

  /// Where this chunk's gradients belong; an argument for backward primitives.
  const dnnl::memory& target() const { return target_; }

  /// Points target() at the right place for this pass; `plain_gradients` is used if it is the last.
  void begin(Network::Pass pass, float* plain_gradients);
  /// Adds what was written to target() to the sums; in the last pass hands them over.
  void end(const dnnl::stream& stream, Network::Pass pass, float* plain_gradients);

 private:
  bool is_plain_ = false;  // then the last pass needs no copy
  std::int64_t count_ = 0;
  dnnl::memory sum_, part_, target_, plain_;
  Call to_plain_;
};

}  // namespace evenstep::kernels::onednn
