#include "runtime/wire_scale.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace evenstep {
namespace {

// The largest sum is kept from 2^10 to 2^11: 32 times that still fits, for the next step's and for
// those of some ranks alone, and what is 2^24 times smaller keeps all its digits.
constexpr int aim = 10;
constexpr int back_off = 16;
constexpr int least = -120;  // where any finite fp32 number fits
constexpr int most = 112;

int exponent_of(float value) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(value) >> 23) - 127;
}

}  // namespace

WireScale::WireScale(std::int64_t samples)
    : first_exponent_(1 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(samples)))),
      exponent_(first_exponent_) {}

float WireScale::power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// Down at once, up slowly: a step with small gradients says little of the next one's.
bool WireScale::fits(float largest) {
  if (largest == 0) {  // if sums are that small, or they were made so
    if (exponent_ < first_exponent_) exponent_ = std::min(exponent_ + back_off, first_exponent_);
    return true;
  }
  const bool finite = std::isfinite(largest);
  const bool smallest = exponent_ == least;
  exponent_ += finite ? std::min(1, aim - exponent_of(largest)) : -back_off;
  exponent_ = std::clamp(exponent_, least, most);
  return finite || smallest;
}

}  // namespace evenstep
