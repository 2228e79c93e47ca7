// Gradients of a linear layer's weights and biases, formed once a share. A product for every chunk
// would write, read and add up all weights for a few samples each time; so chunks only leave their
// inputs and output gradients here, and one product takes them when the share ends or the place is
// full.
#pragma once

#include <optional>

#include "kernels/onednn/gradient_sum.h"
#include "kernels/onednn/sparse_product.h"

namespace evenstep::kernels::onednn {

class WeightProducts {
 public:
  /// For the layer from `input` to `output`. `written` and `plain` describe its weight gradients:
  /// an output's as a sample of the input lies in memory, and as the caller wants them. `sparse`:
  /// many of the output's gradients are zero.
  WeightProducts(Context& context, const Tensor& input, const Tensor& output,
                 const dnnl::memory::desc& written, const dnnl::memory::desc& plain, bool sparse);

  /// Takes the chunk that the tensors hold now; with `pass.last` writes the share's gradients to
  /// `gradients`: weights, then biases.
  void add(std::size_t size, Network::Pass pass, std::span<float> gradients);

 private:
  /// One for every multiple of the granule up to the capacity.
  struct Product {
    dnnl::memory output_gradients, inputs;
    Call call;
  };
  struct Samples {
    void* output_gradients;
    void* inputs;
    std::int64_t count;
  };

  void make_product(Context& context, std::int64_t samples);
  void keep(const Samples& chunk);
  void multiply_kept(bool last, std::span<float> gradients);
  void multiply(const Samples& samples, bool last, std::span<float> gradients);
  void multiply_weights(const Samples& samples);
  void sum_columns(const void* rows, std::int64_t count, float* sums) const;
  std::byte* kept_row(const dnnl::memory& kept, std::int64_t row, std::int64_t elements) const;
  std::size_t bytes(std::int64_t elements) const;

  Tensor input_, output_;
  std::int64_t inputs_, outputs_;  // elements of a sample in memory, with what its layout pads
  bool f32_;
  std::int64_t capacity_;  // samples
  std::int64_t granule_;   // samples; what is missing to it is filled up with zeros
  dnnl::stream stream_;
  dnnl::memory kept_inputs_, kept_output_gradients_;
  std::int64_t kept_count_ = 0;  // samples
  bool first_ = true;            // of the share's products is the next one
  GradientSum weight_sum_, bias_sum_;
  std::int64_t weight_count_;  // in the caller's layout
  std::vector<Product> products_;
  std::optional<SparseProduct> sparse_product_;  // instead of those
};

}  // namespace evenstep::kernels::onednn
