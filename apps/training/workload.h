// What a program trains: the model, and the samples it learns from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/network.h"
#include "training/prefetcher.h"

namespace evenstep::train {

/// Up to how many samples a share's last chunk may be larger, as long as it takes no more memory.
struct LastChunk {
  int samples = 1;
  std::size_t bytes = SIZE_MAX;
};

/// One rank's copy of both. All calls are local; errors of data files are thrown at construction.
class Workload {
 public:
  virtual ~Workload() = default;

  /// For people and logs: such as "cnn" and "f32".
  virtual std::string name() const = 0;
  virtual std::string dtype() const = 0;
  /// Behind losses, such as " nats a byte".
  virtual std::string unit() const { return {}; }
  /// What must be the same on all ranks, as name and value: checksums of the data.
  virtual std::vector<std::pair<std::string, std::string>> must_agree() const = 0;

  virtual kernels::Trainable& model() = 0;
  /// Writes the initial parameters: the same bits for a seed everywhere.
  virtual void initialise(std::uint64_t seed, std::span<float> parameters) const = 0;

  virtual std::int64_t samples() const = 0;
  /// 0: there is nothing to test on.
  virtual std::int64_t test_samples() const = 0;
  /// Makes the training sample at `position` of `epoch`'s order the one at place `at` of the chunk
  /// that the model runs next.
  virtual void load(int at, std::int64_t epoch, std::int64_t position) = 0;
  /// Likewise a test sample, by its index.
  virtual void load_test(int at, std::int64_t index) = 0;

  /// Starts a thread that loads up to `most_samples` of each step ahead, by begin_step() of what is
  /// returned, which must outlive the last load(). Null: there is nothing to do ahead.
  virtual std::unique_ptr<Prefetcher> start_prefetch(std::int64_t /*most_samples*/) {
    return nullptr;
  }
};

}  // namespace evenstep::train
