// Where a network's time goes, by layer (evenstep-train --profile).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/network.h"

namespace evenstep::kernels {

class Profile {
 public:
  enum class Part { forward, backward };

  struct Row {
    std::string layer;
    /// Of one sample: two for each multiplication of a weight, whether or not the layer finds ways
    /// to leave some out; backward has these for the gradients of weights and of inputs each.
    std::int64_t forward_flops = 0;
    std::int64_t backward_flops = 0;
    std::int64_t forward_ns = 0;
    std::int64_t backward_ns = 0;
    std::int64_t ns() const { return forward_ns + backward_ns; }
    std::int64_t flops() const { return forward_flops + backward_flops; }
  };

  explicit Profile(std::vector<Row> rows) : rows_(std::move(rows)) {}

  /// In the network's order, with the loss as the last one.
  const std::vector<Row>& rows() const { return rows_; }
  /// That went forward and backward.
  std::int64_t samples() const { return samples_; }
  /// All rows together.
  Row total() const;

  /// For networks: what passes from here to the next lap belongs to that lap's row.
  void start();
  void lap(std::size_t row, Part part);
  void count(int samples) { samples_ += samples; }

 private:
  std::vector<Row> rows_;
  std::int64_t samples_ = 0;
  std::int64_t start_ns_ = 0;
};

/// What the backend's product of two large matrices reaches on this process's threads, in floating
/// point operations a second, measured now (a tenth of a second or so).
double measure_peak_flops(Dtype dtype);

}  // namespace evenstep::kernels
