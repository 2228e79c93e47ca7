#include "kernels/svm.h"

#include <algorithm>

#include "kernels/profile.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels {
namespace {

// Rows of some hundred entries: backward finds them in the second-level cache.
constexpr int largest_chunk = 256;
constexpr std::size_t rows_ahead = 8;
constexpr std::size_t rare_ahead = 3;              // rows
constexpr std::uint32_t cached_columns = 1 << 15;  // the most frequent: caches keep them
// Prefetches go to the second-level cache: the first one has few lines under way at a time.
constexpr int second_level = 2;
constexpr std::size_t entries_a_line = 64 / sizeof(SparseEntry);

/// Rows lie anywhere in memory: the processor does not see the next one coming.
void prefetch(std::span<const SparseEntry> row) {
  for (std::size_t i = 0; i < row.size(); i += entries_a_line)
    __builtin_prefetch(&row[i], 0, second_level);
}

/// Likewise what a row's rarer columns, the last ones, have in `values`, a weight or gradient each.
template <bool writes>
void prefetch_rare(std::span<const SparseEntry> row, const float* values) {
  for (std::size_t i = row.size(); i > 0 && row[i - 1].column >= cached_columns; --i)
    __builtin_prefetch(&values[row[i - 1].column], writes ? 1 : 0, second_level);
}

EVENSTEP_MULTIVERSION double margin(std::span<const SparseEntry> row, const float* weights) {
  // As many sums as a vector has lanes: additions do not wait for each other.
  constexpr std::size_t lanes = 16;
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= row.size(); i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += row[i + lane].value * weights[row[i + lane].column];
  for (; i < row.size(); ++i) sums[i % lanes] += row[i].value * weights[row[i].column];
  double sum = 0;
  for (float part : sums) sum += part;
  return sum;
}

/// A row's columns differ: reads need not wait for the writes before them, of which the processor
/// often cannot tell in time that they go elsewhere.
void add(float slope, std::span<const SparseEntry> row, float* gradients) {
  constexpr std::size_t at_once = 8;
  std::size_t i = 0;
  for (; i + at_once <= row.size(); i += at_once) {
    float sums[at_once];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < at_once; ++k)
      sums[k] = gradients[row[i + k].column] + slope * row[i + k].value;
#pragma GCC unroll 8
    for (std::size_t k = 0; k < at_once; ++k) gradients[row[i + k].column] = sums[k];
  }
  for (; i < row.size(); ++i) gradients[row[i].column] += slope * row[i].value;
}

}  // namespace

LinearSvm::LinearSvm(std::int64_t columns, float constant)
    : menu_(largest_chunk),
      constant_(constant),
      ranges_{{"weight", 0, columns, {1, columns}, columns}, {"bias", columns, 1, {1, 1}, 1}},
      rows_(largest_chunk),
      labels_(largest_chunk),
      slopes_(largest_chunk) {}

// Rows differ in their number of entries: no count of operations a sample is told.
Profile LinearSvm::make_profile() const { return Profile({{.layer = "svm"}}); }

LossSums LinearSvm::forward(int chunk_size) {
  if (profile_ != nullptr) profile_->start();
  LossSums sums;
  const double bias =
      static_cast<double>(constant_) * static_cast<double>(weights_[weights_.size() - 1]);
  const auto chunk = static_cast<std::size_t>(chunk_size);
  for (std::size_t i = 0; i < chunk; ++i) {
    if (i + rows_ahead < chunk) prefetch(rows_[i + rows_ahead]);
    if (i + rare_ahead < chunk) prefetch_rare<false>(rows_[i + rare_ahead], weights_.data());
    const double label = labels_[i];
    const double signed_margin = label * (margin(rows_[i], weights_.data()) + bias);
    const double loss = 1 - signed_margin;
    slopes_[i] = loss > 0 ? -labels_[i] : 0;
    if (!(loss <= 0)) sums.loss += loss;  // NaN too
    // As in LIBLINEAR, a row on the plane is of the lower label.
    sums.correct += signed_margin > 0 || (signed_margin == 0 && label < 0) ? 1 : 0;
  }
  if (profile_ != nullptr) profile_->lap(0, Profile::Part::forward);
  return sums;
}

void LinearSvm::backward(int chunk_size, Pass pass, std::span<float> gradients,
                         const GradientReady* ready) {
  if (profile_ != nullptr) profile_->start();
  if (pass.first) std::ranges::fill(gradients, 0.0F);
  float slope_sum = 0;
  const auto chunk = static_cast<std::size_t>(chunk_size);
  for (std::size_t i = 0; i < chunk; ++i) {
    if (const std::size_t next = i + rare_ahead; next < chunk && slopes_[next] != 0)
      prefetch_rare<true>(rows_[next], gradients.data());
    const float slope = slopes_[i];
    if (slope == 0) continue;
    slope_sum += slope;
    add(slope, rows_[i], gradients.data());
  }
  gradients.back() += constant_ * slope_sum;
  if (profile_ != nullptr) {
    profile_->lap(0, Profile::Part::backward);
    profile_->count(chunk_size);
  }
  if (pass.last && ready != nullptr) {
    for (const ParameterRange& range : ranges_) (*ready)(range.first, range.count);
  }
}

}  // namespace evenstep::kernels
