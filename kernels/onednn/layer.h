// What the network asks of a layer. `size` is an index into the menu's sizes throughout.
//
// A large chunk runs in pieces, all of them forward before the first goes backward. What a layer
// leaves in itself for backward is therefore in regions that it told the plan to keep; from
// backward_parameters of a piece to its backward_input, which follows, it may lie anywhere.
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

  /// Its gradients are empty where neither this layer nor one before it has parameters.
  const Tensor& output() const { return output_; }

  /// Takes the layer's new parameters, plain: weight, then bias.
  virtual void load(std::span<const float> /*parameters*/) {}

  /// Takes the running averages, if any: means, then variances.
  virtual void load_averages(std::span<const float> /*averages*/) {}

  virtual void forward(std::size_t size) = 0;
  /// Forward as the finished network is used.
  virtual void evaluate(std::size_t size) { forward(size); }

  /// Adds the parameter gradients of the chunk to the share's sums; with `pass.last` writes the
  /// sums to `gradients`, plain: weight, then bias. Runs before backward_input.
  virtual void backward_parameters(std::size_t /*size*/, Network::Pass /*pass*/,
                                   std::span<float> /*gradients*/) {}

  /// Adds the chunk's statistics, each times its samples, to the share's sums; with `pass.last`
  /// writes the sums to `sums`, in the order of load_averages.
  virtual void sum_averages(std::size_t /*size*/, Network::Pass /*pass*/,
                            std::span<float> /*sums*/) {}

  /// Turns the gradients of the output into those of the inputs that have any. Not called where
  /// none has.
  virtual void backward_input(std::size_t size) = 0;

  /// What must still be there in backward; other values may be overwritten as soon as they have
  /// been read.
  virtual bool needs_input() const { return true; }
  virtual bool needs_output() const { return false; }
  /// Whether backward changes the gradients of the output themselves.
  virtual bool alters_gradients() const { return false; }

 protected:
  Tensor output_;
};

}  // namespace evenstep::kernels::onednn
