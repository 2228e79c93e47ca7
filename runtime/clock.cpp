#include "evenstep/clock.h"

#include <chrono>

#include "evenstep/version.h"

namespace evenstep {
namespace {

class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

const char* version() { return EVENSTEP_VERSION; }

}  // namespace evenstep
