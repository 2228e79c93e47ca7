// What the network asks of a layer. `size` is an index into the menu's sizes throughout.
#pragma once

#include <memory>
#include <span>

#include "kernels/onednn/context.h"

namespace evenstep::kernels::onednn {

class Layer {
 public:
  virtual ~Layer() = default;
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const Tensor& output() const { return output_; }

  /// Takes the layer's new parameters, plain: weight, then bias.
  virtual void load(std::span<const float> /*parameters*/) {}

  virtual void forward(std::size_t size) = 0;

  /// Adds the parameter gradients of the chunk to the share's sums; with `pass.last` writes the
  /// sums to `gradients`, plain: weight, then bias. Runs before backward_input.
  virtual void backward_parameters(std::size_t /*size*/, Network::Pass /*pass*/,
                                   std::span<float> /*gradients*/) {}

  /// Turns the gradients of the output into those of the input. Not called where nobody needs
  /// them: at the first layer with parameters and before it.
  virtual void backward_input(std::size_t size) = 0;

 protected:
  Tensor output_;
};

/// Two regions that the gradients of successive tensors alternate between.
class GradientRegions {
 public:
  explicit GradientRegions(MemoryPlan& plan) : regions_{plan.new_region(), plan.new_region()} {}
  /// The region that the newest tensor does not use.
  MemoryPlan::Region next() { return regions_[turn_ ^= 1]; }

 private:
  MemoryPlan::Region regions_[2];
  int turn_ = 0;
};

}  // namespace evenstep::kernels::onednn
