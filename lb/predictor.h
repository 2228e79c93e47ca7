// Forecasts of a rank's speed. What is the same on all ranks is fed the same and foretells the
// same: basic arithmetic in a fixed order, no clock and no randomness.
//
//   last  the speed of the last step
//   ema   e += 0.2 (v - e)
//   ar    v' = c + sum_i a_i v_(-i), i = 0..3: recursive least squares, forgetting 0.99
//   narx  nonlinear autoregression with exogenous inputs (C. Chen et al., LB-BSP, SoCC 2020):
//         v' = f(past speeds; past and current CPU and memory availability), f a network with one
//         hidden layer, trained online
#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace evenstep::lb {

/// Of one rank. In a step: observe, see, forecast. None of them allocates.
class Predictor {
 public:
  virtual ~Predictor() = default;

  /// Takes the speed of the step that ended, above 0. Left out where the step says nothing.
  virtual void observe(double speed) = 0;
  /// Takes the availability seen just before the next step, in any unit; 0: not seen.
  virtual void see(double /*cpu*/, double /*memory*/) {}
  /// The speed of the next step, above 0; 0 where nothing was observed yet.
  virtual double forecast() const = 0;
};

/// `last`, `ema`, `ar` or `narx`. Throws std::invalid_argument for any other name, listing these.
std::unique_ptr<Predictor> make_predictor(std::string_view name);

/// The names make_predictor knows.
std::span<const std::string_view> predictor_names();

}  // namespace evenstep::lb
