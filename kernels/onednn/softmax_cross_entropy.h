// Softmax cross-entropy of each row of logits: sums of losses and the gradient of the sum, not of
// the mean. Forward leaves the gradients in the logits' place.
#pragma once

#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class SoftmaxCrossEntropy {
 public:
  /// Takes the network's logits: fp32 values, a row of channels for each target; gradients are in
  /// the compute type. `smoothing` of each target is spread over all classes evenly. To be made
  /// before the plan is committed.
  SoftmaxCrossEntropy(Context& context, const Tensor& logits, double smoothing);

  /// Labels of the chunk's targets. Throws std::out_of_range for one outside [0, classes).
  LossSums forward(std::size_t size, std::span<const std::int32_t> labels);
  /// Writes the gradients of the logits of the chunk that forward saw last.
  void backward(std::size_t size);

 private:
  Tensor logits_;
  std::int64_t classes_;
  bool f32_;
  double smoothing_;
  std::vector<LossSums> of_row_;  // summed in order, whatever the threads
};

}  // namespace evenstep::kernels::onednn
