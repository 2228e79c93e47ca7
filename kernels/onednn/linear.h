// Fully connected layer with bias, by matrix products on a flat view of its input. Activations may
// lie in any layout: the weights are put in the same order once a step, or, where they are in it
// already, read where the caller has them. Products with many zeros skip them, and with a zero
// whatever it is multiplied with, be that infinite or NaN: whether such a weight shows depends on
// the chunk.
#pragma once

#include <optional>

#include "kernels/onednn/few_rows.h"
#include "kernels/onednn/layer.h"
#include "kernels/onednn/sparse_product.h"
#include "kernels/onednn/weight_products.h"

namespace evenstep::kernels::onednn {

class Linear : public Layer {
 public:
  struct Options {
    int outputs;
    bool logits;             ///< the last layer: its values are fp32 whatever the compute type
    bool zeros_in;           ///< many input values are zero
    bool background_in;      ///< or, in images, have one value, that of the sample's first and last
                             ///< pixel
    bool zeros_in_backward;  ///< many of the output's gradients are zero
  };
  Linear(Context& context, const Tensor& input, const Options& options);
  void load(std::span<const float> parameters) override;
  void forward(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;

 private:
  void make_output(Context& context, bool logits);
  void make_weights(Context& context, bool zeros_in_backward);
  void make_sparse(Context& context, const Options& options);
  dnnl::memory weights_as(Context& context, const dnnl::memory::desc& desc) const;
  void make_forward(Context& context, std::size_t size);
  void make_backward_input(Context& context, std::size_t size);
  void forward_sparse(std::size_t size);

  Tensor input_;
  std::int64_t outputs_;
  std::int64_t inputs_;        // elements of a sample in memory, with what its layout pads
  std::int64_t weight_count_;  // in the caller's plain layout
  dnnl::stream stream_;
  bool in_place_;               // the caller's weights and biases serve as they are
  dnnl::memory plain_weights_;  // the caller's
  MemoryPlan::Region weights_region_;
  dnnl::memory weights_, bias_;
  // The same weights as products want to see them: inputs x outputs, and outputs x inputs.
  dnnl::memory forward_weights_, backward_weights_;
  Call load_weights_;
  std::optional<WeightProducts> weight_products_;
  std::vector<FewRows> few_;                     // forward at the smallest sizes
  std::vector<Call> forward_;                    // and at the next
  std::optional<SparseProduct> sparse_forward_;  // and, if there, at the others
  std::vector<Call> backward_input_;
  std::optional<SparseProduct> sparse_backward_;  // if there, at sizes beyond those
  bool background_;
  std::vector<float> backgrounds_, row_sums_;  // of samples, and of an output's weights
};

}  // namespace evenstep::kernels::onednn
