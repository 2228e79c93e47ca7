// Time as the runtime sees it, so that tests can set it.
#pragma once

#include <atomic>
#include <cstdint>

namespace evenstep {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since any fixed moment; never goes back.
  virtual std::int64_t now_ns() const = 0;
};

/// The system's monotonic clock. Reading it is no system call.
const Clock& steady_clock();

/// A clock that stands still until it is told to move on.
class ManualClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_; }
  void advance_ns(std::int64_t by) { now_ns_ += by; }
  void set_ns(std::int64_t now) { now_ns_ = now; }

 private:
  std::atomic<std::int64_t> now_ns_ = 0;
};

}  // namespace evenstep
