// Gradients that travel as F16 are scaled: it ends at 65504, and below 2^-14 it loses digits. The
// factor is a power of two, so that it changes no other digit, and follows the sums of the steps
// before, which all ranks know: no message is needed.
#pragma once

#include <cstdint>

namespace evenstep {

class WireScale {
 public:
  /// For sums over `samples`: at first these travel as their means.
  explicit WireScale(std::int64_t samples);

  float factor() const { return power_of_two(exponent_); }
  float inverse() const { return power_of_two(-exponent_); }

  /// `largest`: magnitude in a step's sums as they travelled. False if they did not fit; the
  /// next step's are made 2^16 times smaller. What does not fit however small it is made is not the
  /// wire's doing: true.
  bool fits(float largest);

 private:
  static float power_of_two(int exponent);

  int first_exponent_;
  int exponent_;
};

}  // namespace evenstep
