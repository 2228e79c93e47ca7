// A linear support vector machine: hinge loss on sparse rows. The L2 term of its objective,
//     lambda/2 |w|^2 + mean over rows of max(0, 1 - y (w x + b)),
// is the optimizer's weight decay, so that gradients are sums over samples, as for every model.
// (Shalev-Shwartz, Singer, Srebro: Pegasos, 2007; lambda = 1 / (C rows) for LIBLINEAR's C.)
#pragma once

#include <vector>

#include "kernels/data/sparse.h"
#include "kernels/network.h"

namespace evenstep::kernels {

/// Not thread safe. Parameters: a weight for each column, then the weight of a constant feature.
/// Computes on the parameters where load_parameters finds them: they must stay there. Gradients
/// are kept in `gradients` from a share's first pass on.
class LinearSvm final : public Trainable {
 public:
  /// `constant`: value of the constant feature; 0: there is none.
  LinearSvm(std::int64_t columns, float constant);

  /// Makes the row the one at place `at` of the next chunk. `data` must outlive its use.
  void stage(int at, const SparseRows& data, std::int64_t row) {
    const auto place = static_cast<std::size_t>(at);
    rows_[place] = data.row(row);
    labels_[place] = data.labels[static_cast<std::size_t>(row)];
  }

  const ChunkMenu& menu() const override { return menu_; }
  std::span<const ParameterRange> parameters() const override { return ranges_; }
  std::int64_t parameter_count() const override { return ranges_.back().first + 1; }
  std::int64_t trained_count() const override { return parameter_count(); }
  /// 0: rows differ in their number of entries.
  std::int64_t forward_flops() const override { return 0; }
  int granule() const override { return 1; }
  void load_parameters(std::span<const float> parameters) override { weights_ = parameters; }
  LossSums forward(int chunk_size) override;
  LossSums evaluate(int chunk_size) override { return forward(chunk_size); }
  void backward(int chunk_size, Pass pass, std::span<float> gradients,
                const GradientReady* ready) override;
  Profile make_profile() const override;
  void set_profile(Profile* profile) override { profile_ = profile; }

 private:
  ChunkMenu menu_;
  float constant_;
  std::vector<ParameterRange> ranges_;
  std::span<const float> weights_;
  Profile* profile_ = nullptr;
  std::vector<std::span<const SparseEntry>> rows_;  // of the chunk
  std::vector<float> labels_;
  std::vector<float> slopes_;  // of each row's loss by its margin
};

}  // namespace evenstep::kernels
