// Causal self-attention (Vaswani et al. 2017) of several heads, without the matrices that make
// queries, keys and values. No probabilities are kept for backward: it forms them again, block by
// block, from the logarithm of each query's sum (as in Dao et al. 2022).
#pragma once

#include "kernels/onednn/attention_loops.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class Attention : public Layer {
 public:
  /// A row of `input` holds a token's queries, keys and values, each for all heads.
  Attention(Context& context, const Tensor& input, int heads);
  void forward(std::size_t size) override;
  void backward_input(std::size_t size) override;
  bool needs_output() const override { return true; }

 private:
  /// A thread's matrices: padded tokens x padded features, or transposed, or a block of queries.
  struct Scratch {
    float *queries, *keys, *keys_t, *values, *values_t;
    float *output, *output_gradients, *key_gradients, *value_gradients;
    float *scores, *gradients;     // block x tokens
    float *block, *scales, *sums;  // block x features, and by query of a block, and by token
  };
  /// One head of one sequence of a chunk.
  struct Head {
    std::int64_t sequence, head;
  };

  template <typename T>
  void forward_head(std::size_t size, Head head);
  template <typename T>
  void backward_head(std::size_t size, Head head);
  template <typename T>
  attention_loops::Rows<T> rows(const dnnl::memory& memory, Head head, int part,
                                std::int64_t features) const;
  template <typename T>
  void pack_inputs(std::size_t size, Head head, const Scratch& s);
  template <typename Run>
  void for_each_head(std::size_t size, Run run);
  Scratch scratch() const;
  void score_block(const Scratch& s, std::int64_t first, std::int64_t seen);

  Tensor input_;
  bool f32_;
  std::int64_t heads_, tokens_, features_;  // features of a head
  std::int64_t padded_tokens_, padded_features_;
  float scale_;
  dnnl::memory scratch_;
  int threads_;                  // at most
  std::int64_t scratch_floats_;  // of a thread
  Kept logarithms_;              // by sequence, head and padded query
};

}  // namespace evenstep::kernels::onednn
