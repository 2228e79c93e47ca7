#include "lb/predictor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace evenstep::lb {
namespace {

class Last final : public Predictor {
 public:
  void observe(double speed) override { speed_ = speed; }
  double forecast() const override { return speed_; }

 private:
  double speed_ = 0;
};

// A mean that forgets; its first reading counts in full.
class Ema final : public Predictor {
 public:
  explicit Ema(double weight = 0.2) : weight_(weight) {}
  void observe(double reading) override { mean_ += (mean_ == 0 ? 1 : weight_) * (reading - mean_); }
  double forecast() const override { return mean_; }

 private:
  double weight_;
  double mean_ = 0;
};

// Recursive least squares (Haykin, Adaptive filter theory, chapter 9). Speeds are taken relative to
// the first one, so that the constant input 1 is of their size.
class AutoRegressive final : public Predictor {
 public:
  AutoRegressive() { reset(); }

  void observe(double speed) override {
    if (unit_ == 0) unit_ = speed;
    const double relative = speed / unit_;
    if (seen_ >= order) learn(relative);
    for (std::size_t i = order - 1; i > 0; --i) past_[i] = past_[i - 1];
    past_[0] = relative;
    seen_ = std::min(seen_ + 1, enough);
  }

  // Until there is something to go by, the last speed; never far outside the last few.
  double forecast() const override {
    if (seen_ < enough) return unit_ * past_[0];
    const auto [least, most] = std::ranges::minmax(past_);
    return unit_ * std::clamp(dot(inputs(), weights_), 0.5 * least, 1.5 * most);
  }

 private:
  static constexpr std::size_t order = 4;
  static constexpr std::size_t enough = 4 * order;
  static constexpr std::size_t size = order + 1;
  static constexpr double forgetting = 0.99;
  static constexpr double doubt = 100;       // of the first weights
  static constexpr double most_doubt = 1e6;  // where inputs hardly change, it would grow for ever
  using Vector = std::array<double, size>;

  void reset() {
    weights_ = {};
    weights_[0] = 1;
    for (Vector& row : covariance_) row = {};
    for (std::size_t i = 0; i < size; ++i) covariance_[i][i] = doubt;
  }
  Vector inputs() const {
    Vector x{};
    std::ranges::copy(past_, x.begin());
    x[order] = 1;
    return x;
  }
  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
  }
  void learn(double speed) {
    const Vector x = inputs();
    Vector px{};
    for (std::size_t i = 0; i < size; ++i) px[i] = dot(covariance_[i], x);
    const double divisor = forgetting + dot(x, px);
    const double off = speed - dot(x, weights_);
    double trace = 0;
    for (std::size_t i = 0; i < size; ++i) trace += covariance_[i][i];
    const double growth = trace < most_doubt ? 1 / forgetting : 1;
    for (std::size_t i = 0; i < size; ++i) {
      weights_[i] += px[i] / divisor * off;
      for (std::size_t j = 0; j < size; ++j)
        covariance_[i][j] = growth * (covariance_[i][j] - px[i] * px[j] / divisor);
    }
    // Rounding can spoil the covariance in the long run.
    if (!(trace > 0) || !(weights_[0] * weights_[0] < 1e12)) reset();
  }

  double unit_ = 0;
  std::array<double, order> past_{};  // newest first
  std::size_t seen_ = 0;              // up to enough
  Vector weights_{};
  std::array<Vector, size> covariance_{};
};

// x / (1 + |x|): a bend like tanh's from basic arithmetic alone.
double bend(double x) { return x / (1 + std::abs(x)); }
double slope_of_bend(double x) {
  const double y = 1 + std::abs(x);
  return 1 / (y * y);
}

// A series relative to its own mean that forgets, in units of its usual distance from it.
class Relative {
 public:
  void take(double reading) {
    if (reading == 0) return;  // not seen
    const double off = mean_.forecast() == 0 ? 0 : reading / mean_.forecast() - 1;
    spread_ += weight * (std::min(off * off, 1.0) - spread_);
    mean_.observe(reading);
  }
  double of(double reading) const {
    if (reading == 0) return 0;
    return std::clamp((reading / mean_.forecast() - 1) / deviation(), -most, most);
  }
  double back(double relative) const { return mean_.forecast() * (1 + relative * deviation()); }

 private:
  double deviation() const { return std::sqrt(std::max(spread_, least_spread)); }

  static constexpr double weight = 0.02;
  static constexpr double least_spread = 0.0001;  // squared
  static constexpr double most = 4;

  Ema mean_;
  double spread_ = 0.0025;  // squared
};

// A network of one hidden layer and a straight path beside it, trained by stochastic gradient
// descent on the newest example and once more on an older one. The straight path is what makes it
// learn within tens of steps; the hidden layer learns what is bent. Forecasts far outside the last
// speeds are cut off.
class Narx final : public Predictor {
 public:
  Narx() {
    // Small weights that differ, the same everywhere: a linear congruential generator (Knuth's
    // MMIX).
    std::uint64_t state = 1;
    for (Inputs& row : hidden_)
      for (double& weight : row) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        weight = (static_cast<double>(state >> 40) / (1 << 24) - 0.5) * 0.5;
      }
  }

  void observe(double speed) override {
    if (ready_) {
      Example& example = examples_[next_];
      example = {now_, speed_.of(speed)};
      next_ = (next_ + 1) % examples_.size();
      count_ = std::min(count_ + 1, examples_.size());
      learn(example);
      repeat_ = (repeat_ + 7) % examples_.size();  // 7: no factor in common with remembered
      if (repeat_ < count_) learn(examples_[repeat_]);
    }
    speed_.take(speed);
    push(speeds_, speed);
    observed_ = true;
  }

  void see(double cpu, double memory) override {
    cpu_.take(cpu);
    memory_.take(memory);
    push(cpus_, cpu);
    push(memories_, memory);
    std::size_t i = 0;
    for (const double speed : speeds_) now_[i++] = observed_ ? speed_.of(speed) : 0;
    for (const double seen : cpus_) now_[i++] = cpu_.of(seen);
    for (const double seen : memories_) now_[i++] = memory_.of(seen);
    now_[i] = 1;
    ready_ = observed_;
  }

  double forecast() const override {
    if (!observed_) return 0;
    const double foreseen = speed_.back(ready_ ? output(now_) : 0);
    double least = speeds_[0];
    double most = speeds_[0];
    for (const double speed : speeds_) {
      if (speed == 0) continue;
      least = std::min(least, speed);
      most = std::max(most, speed);
    }
    return std::clamp(foreseen, 0.5 * least, 2 * most);
  }

 private:
  static constexpr std::size_t past = 3;  // speeds
  static constexpr std::size_t seen = 3;  // CPU and memory: current and past
  static constexpr std::size_t inputs = past + 2 * seen + 1;
  static constexpr std::size_t units = 6;
  static constexpr std::size_t remembered = 16;
  static constexpr double rate = 0.02;
  static constexpr double most_error = 1;  // of one example: spikes teach little
  using Inputs = std::array<double, inputs>;
  struct Example {
    Inputs x;
    double y;
  };

  template <std::size_t Size>
  static void push(std::array<double, Size>& series, double newest) {
    for (std::size_t i = Size - 1; i > 0; --i) series[i] = series[i - 1];
    series[0] = newest;
  }
  static double dot(const Inputs& a, const Inputs& b) {
    double sum = 0;
    for (std::size_t i = 0; i < inputs; ++i) sum += a[i] * b[i];
    return sum;
  }
  double output(const Inputs& x) const {
    double sum = dot(straight_, x);
    for (std::size_t u = 0; u < units; ++u) sum += out_[u] * bend(dot(hidden_[u], x));
    return sum;
  }
  void learn(const Example& example) {
    const double off = std::clamp(example.y - output(example.x), -most_error, most_error);
    const double step = rate * off;
    for (std::size_t u = 0; u < units; ++u) {
      const double sum = dot(hidden_[u], example.x);
      const double back = step * out_[u] * slope_of_bend(sum);
      out_[u] += step * bend(sum);
      for (std::size_t i = 0; i < inputs; ++i) hidden_[u][i] += back * example.x[i];
    }
    for (std::size_t i = 0; i < inputs; ++i) straight_[i] += step * example.x[i];
  }

  Relative speed_;
  Relative cpu_;
  Relative memory_;
  std::array<double, past> speeds_{};  // newest first
  std::array<double, seen> cpus_{};
  std::array<double, seen> memories_{};
  Inputs now_{};           // for the next step
  bool observed_ = false;  // a speed
  bool ready_ = false;     // now_ holds inputs from after a speed was observed

  std::array<Inputs, units> hidden_{};
  std::array<double, units> out_{};
  Inputs straight_{};
  std::array<Example, remembered> examples_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  std::size_t repeat_ = 0;
};

constexpr std::array<std::string_view, 4> names = {"last", "ema", "ar", "narx"};

}  // namespace

std::unique_ptr<Predictor> make_predictor(std::string_view name) {
  if (name == "last") return std::make_unique<Last>();
  if (name == "ema") return std::make_unique<Ema>();
  if (name == "ar") return std::make_unique<AutoRegressive>();
  if (name == "narx") return std::make_unique<Narx>();
  throw std::invalid_argument(
      fmt::format("unknown predictor '{}'; choose one of {}", name, fmt::join(names, ", ")));
}

std::span<const std::string_view> predictor_names() { return names; }

}  // namespace evenstep::lb
