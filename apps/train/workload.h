// What a program trains: the model, and the samples it learns from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/network.h"

namespace evenstep::train {

/// Whether samples are decoded ahead on a thread; automatic: where that is worth it.
enum class Prefetch { off, on, automatic };

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

  /// What was asked for; off where nothing can be decoded ahead.
  virtual Prefetch prefetch() const { return Prefetch::off; }
  /// From now on up to `most_samples` of each step are decoded ahead, as foresee() says.
  virtual void start_prefetch(std::int64_t /*most_samples*/) {}
  /// At the start of each step: the next one will load, as far as can be known, those at `count`
  /// positions from `first` of `epoch`.
  virtual void foresee(std::int64_t /*epoch*/, std::int64_t /*first*/, std::int64_t /*count*/) {}
  /// CPU time, so far, of threads that decode ahead.
  virtual std::int64_t loader_cpu_ns() const { return 0; }
};

}  // namespace evenstep::train
