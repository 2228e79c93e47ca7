// Optimizers, learning rate schedules and clipping in replicated arithmetic: whole numbers and
// basic IEEE operations in a fixed order, so that every rank computes the same bits on any
// processor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace evenstep {

struct OptimizerOptions {
  std::string name = "sgd";  ///< sgd, adamw or lars
  double momentum = 0.9;     ///< sgd, lars
  bool nesterov = false;     ///< sgd
  double weight_decay = 0;   ///< sgd, lars: added to the gradient; adamw: decoupled
  double trust = 0.001;      ///< lars: a tensor's step, relative to its norm, at learning rate 1
  double beta1 = 0.9;        ///< adamw
  double beta2 = 0.999;      ///< adamw
  double epsilon = 1e-8;     ///< adamw
};

/// One layer's weights, or its biases, in the flat parameter vector.
struct ParameterTensor {
  std::int64_t first = 0;  ///< in elements
  std::int64_t count = 0;
  /// False for biases and the gains of normalisation: lars and adamw do not decay them, and lars
  /// trains them as sgd does. sgd makes no difference.
  bool is_weight = true;
};

/// Moves running averages, such as batch norm's, towards a step's own:
/// a += rate (scale x latest - a). Local; the same bits on all ranks.
void move_averages(std::span<float> averages, std::span<const float> latest, float rate,
                   float scale = 1);

/// SGD with momentum (Sutskever et al. 2013, in PyTorch's form), AdamW (Loshchilov and Hutter
/// 2019), or LARS (You, Gitman, Ginsburg 2017): SGD with momentum whose rate for each tensor is
/// multiplied by trust x |w| / (|g| + weight_decay x |w|), by 1 where a norm is zero.
class Optimizer {
 public:
  /// Throws UsageError for an unknown name. Allocates the state for `parameters` values. `tensors`,
  /// for lars and adamw, cover them in order (else UsageError); empty: one tensor of weights.
  Optimizer(const OptimizerOptions& options, std::int64_t parameters,
            std::vector<ParameterTensor> tensors = {});

  /// Updates `parameters` in place by `scale` x `gradients`: 1 for averages, 1 / weight for sums,
  /// less where they are clipped. Local; allocates nothing.
  void step(std::span<float> parameters, std::span<const float> gradients, double learning_rate,
            float scale = 1);

 private:
  void step_adamw(std::span<float> parameters, std::span<const float> gradients, double rate,
                  float scale);
  void step_lars(std::span<float> parameters, std::span<const float> gradients, double rate,
                 float scale);

  OptimizerOptions options_;
  bool adamw_;
  bool lars_;
  std::vector<ParameterTensor> tensors_;
  std::vector<float> first_;   // momentum, or first moment
  std::vector<float> second_;  // adamw: second moment
  double beta1_power_ = 1;     // beta1^steps, a running product
  double beta2_power_ = 1;
};

struct ScheduleOptions {
  std::string name = "constant";  ///< constant, cosine or step
  double learning_rate = 0.05;    ///< at its highest
  std::int64_t warmup_steps = 0;  ///< linear from 1/warmup_steps of the rate
  std::int64_t total_steps = 1;   ///< cosine: falls to 0 at the end; step: see below
};

/// The learning rate of `step` (from 0). cosine: half a cosine from the end of the warm-up to
/// total_steps (Loshchilov and Hutter 2017). step: a tenth after half of the steps and a hundredth
/// after three quarters (He et al. 2016). Throws UsageError for an unknown name.
double learning_rate(const ScheduleOptions& options, std::int64_t step);

/// Euclidean norm, summed in double over a fixed tree.
double norm(std::span<const float> gradients);

/// Scales `gradients` so that their norm is at most `most`; returns the norm before.
double clip_by_norm(std::span<float> gradients, double most);

/// cos(pi x) for x in [0, 1], from additions and multiplications alone; within 1e-15.
double cos_pi(double x);

}  // namespace evenstep
