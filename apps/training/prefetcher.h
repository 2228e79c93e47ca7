// Reads and decodes the next step's samples on a thread of its own, the loader, while this step
// computes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace evenstep::train {

/// Two buffers take turns, a step each: the training thread reads one while the loader fills the
/// other. The training thread waits for nothing: what the loader has not decoded in time, or was
/// not asked for, because the partition has changed, it decodes itself. So a loader that gets no
/// core costs nothing but its own work. All calls are the training thread's.
class Prefetcher {
 public:
  /// Writes the input of the sample at `position` of `epoch` to `out` and returns its label. A pure
  /// function, called from the loader.
  using Decode =
      std::function<int(std::int64_t epoch, std::int64_t position, std::span<float> out)>;

  /// Holds up to `most_samples` of a step, each of `elements` values; 0: `decode` has
  /// samples read into memory, and there is nothing to find. Starts the loader.
  Prefetcher(Decode decode, std::size_t elements, std::int64_t most_samples);
  /// Ends the loader, once it has decoded the sample it is at.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// A step begins, whose samples are those that were asked for last; from now on those at `count`
  /// positions from `first` of `epoch` are decoded for the step after it. Allocates nothing; a
  /// system call only to wake a loader that sleeps. Throws what decoding has thrown.
  void begin_step(std::int64_t epoch, std::int64_t first, std::int64_t count);

  struct Sample {
    std::span<const float> input;  ///< empty: it is not there; valid until the next begin_step
    int label = 0;
  };
  Sample find(std::int64_t epoch, std::int64_t position) const;

  /// CPU time of the loader.
  std::int64_t cpu_ns() const;

 private:
  struct Buffer {
    std::unique_ptr<float[]> inputs;  // not touched before it is written
    std::vector<int> labels;
    std::int64_t epoch = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::atomic<std::int64_t> done = 0;  // samples that are there, the first ones
  };

  void loop();
  void decode_all(Buffer& buffer, std::int64_t job);
  Buffer& buffer_of(std::int64_t job) { return buffers_[static_cast<std::size_t>(job % 2)]; }
  std::span<float> input(const Buffer& buffer, std::int64_t at) const;

  Decode decode_;
  std::size_t elements_;
  std::int64_t most_samples_;
  std::array<Buffer, 2> buffers_;
  const Buffer* current_ = nullptr;

  // Handed over by atomic wait and notify: there is no lock that a loader off its core could hold,
  // and a system call only where the loader sleeps. Jobs are numbered from 1.
  std::atomic<std::int64_t> posted_ = 0;    // the last job there is; a new one ends those before it
  std::atomic<std::int64_t> finished_ = 0;  // the loader writes for this and earlier jobs no more
  std::atomic<bool> ends_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;  // of the loader, before failed_ is set
  std::thread loader_;
};

}  // namespace evenstep::train
