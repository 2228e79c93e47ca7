// Batch normalisation (Ioffe and Szegedy 2015) over groups of samples, joined with the residual sum
// and the ReLU that may follow it.
//
// The samples of a chunk are normalised in groups of Network::granule() samples, a smaller chunk as
// one group. Shares are cut at multiples of the granule, so which samples form a group does not
// depend on the partition.
#pragma once

#include <optional>

#include "kernels/onednn/channel_loops.h"
#include "kernels/onednn/layer.h"

namespace evenstep::kernels::onednn {

class BatchNorm : public Layer {
 public:
  struct Options {
    int group = 1;  ///< samples
    double epsilon = 1e-5;
    bool relu = false;
    std::optional<Tensor> residual = {};  ///< added before the ReLU
  };
  BatchNorm(Context& context, const Tensor& input, Options options);
  void load(std::span<const float> parameters) override;
  void load_averages(std::span<const float> averages) override;
  void forward(std::size_t size) override;
  void evaluate(std::size_t size) override;
  void backward_parameters(std::size_t size, Network::Pass pass,
                           std::span<float> gradients) override;
  void backward_input(std::size_t size) override;
  void sum_averages(std::size_t size, Network::Pass pass, std::span<float> sums) override;
  bool needs_output() const override { return options_.relu; }
  bool alters_gradients() const override { return options_.relu; }

 private:
  using Values = std::vector<float>;
  /// The groups of a chunk.
  struct Groups {
    std::int64_t count;
    std::int64_t samples;  // of each
  };

  template <typename T>
  void normalise(std::size_t size, bool measure);
  template <typename T>
  void sum_gradients(std::size_t size);
  template <typename T>
  void combine_gradients(std::size_t size);
  template <typename Run>
  void for_each_column(Groups groups, Run run) const;
  Groups groups_of(std::size_t size) const;
  void set_affine(std::size_t at, std::size_t channel, float mean, float variance);

  Tensor input_;
  Options options_;
  bool f32_;
  std::vector<std::int64_t> samples_;  // by menu size
  channel_loops::View view_;
  int lanes_;
  std::size_t channels_;  // without padding
  // By channel, with padding.
  Values weight_, bias_, average_mean_, average_variance_;
  Values weight_sums_, bias_sums_, mean_sums_, variance_sums_;
  // By group and channel, kept from forward to backward of a piece.
  Kept mean_, variance_, scale_;
  // Likewise, of the piece that runs.
  Values shift_, gradient_sums_, gradient_products_, of_x_, constant_;
};

}  // namespace evenstep::kernels::onednn
