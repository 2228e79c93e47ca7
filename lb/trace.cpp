#include "lb/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace evenstep::lb {
namespace {

constexpr double fixed_ms = 4;
constexpr double per_sample_ms = 1;

Cost cost_ms(double fixed, double per_sample, double floor = 0) {
  return {static_cast<Nanoseconds>(fixed * 1e6), static_cast<Picoseconds>(per_sample * 1e9),
          static_cast<Nanoseconds>(floor * 1e6)};
}

Cost cost_at_speed(double speed) { return cost_ms(fixed_ms, per_sample_ms / speed); }

using Random = std::mt19937_64;

double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

// A quarter of the ranks, at least one.
std::vector<std::size_t> random_quarter(Random& random, std::size_t ranks) {
  std::vector<std::size_t> all(ranks);
  for (std::size_t r = 0; r < ranks; ++r) all[r] = r;
  std::ranges::shuffle(all, random);
  all.resize(std::max<std::size_t>(1, ranks / 4));
  return all;
}

// Kinds differ in how they move their ranks' states from step to step.
class Generated : public Trace {
 public:
  Generated(int ranks, std::uint64_t seed)
      : random_(seed), states_(static_cast<std::size_t>(ranks)) {
    for (RankState& state : states_) state.cost = cost_at_speed(1);
  }
  int ranks() const override { return static_cast<int>(states_.size()); }
  void next(std::span<RankState> states) override {
    move(step_++);
    std::ranges::copy(states_, states.begin());
  }

 protected:
  virtual void move(std::int64_t /*step*/) {}

  Random random_;
  std::vector<RankState> states_;

 private:
  std::int64_t step_ = 0;
};

class StaticSpeeds final : public Generated {
 public:
  StaticSpeeds(int ranks, std::uint64_t seed) : Generated(ranks, seed) {
    constexpr double speeds[] = {0.5, 0.5, 1, 2};
    for (std::size_t r = 0; r < states_.size(); ++r) states_[r].cost = cost_at_speed(speeds[r % 4]);
  }
};

class Floors final : public Generated {
 public:
  Floors(int ranks, std::uint64_t seed) : Generated(ranks, seed) {
    constexpr double fixed[] = {30, 20, 40, 60};
    constexpr double per_sample[] = {0.5, 1, 1.4, 0.8};
    for (std::size_t r = 0; r < states_.size(); ++r) {
      const double f = fixed[r % 4];
      const double c = per_sample[r % 4];
      states_[r].cost = cost_ms(f, c, f + 64 * c);
    }
  }
};

// About every 200 steps another quarter of the ranks is slow for about 100.
class Shifts final : public Generated {
 public:
  using Generated::Generated;

 private:
  void move(std::int64_t step) override {
    if (step == drop_) {
      for (std::size_t r : random_quarter(random_, states_.size()))
        states_[r].cost = cost_at_speed(uniform(random_, 0.3, 0.8));
      recover_ = step + static_cast<std::int64_t>(uniform(random_, 80, 121));
      drop_ = step + static_cast<std::int64_t>(uniform(random_, 160, 241));
    } else if (step == recover_) {
      for (RankState& state : states_) state.cost = cost_at_speed(1);
    }
  }
  std::int64_t drop_ = 100;
  std::int64_t recover_ = -1;
};

class Drift final : public Generated {
 public:
  Drift(int ranks, std::uint64_t seed) : Generated(ranks, seed) {
    for (std::size_t r = 0; r < states_.size(); ++r)
      waves_.push_back({uniform(random_, 200, 1000), uniform(random_, 0, 2 * M_PI)});
  }

 private:
  void move(std::int64_t step) override {
    for (std::size_t r = 0; r < states_.size(); ++r)
      states_[r].cost =
          cost_at_speed(1 + 0.4 * std::sin(2 * M_PI * static_cast<double>(step) / waves_[r].period +
                                           waves_[r].phase));
  }
  struct Wave {
    double period;
    double phase;
  };
  std::vector<Wave> waves_;
};

// Availability a: a' = 0.9 a + noise with a standing deviation of 25 % around
// 1, seen with 5 % noise.
class AutoRegressive final : public Generated {
 public:
  AutoRegressive(int ranks, std::uint64_t seed)
      : Generated(ranks, seed), off_(static_cast<std::size_t>(ranks)) {
    for (double& off : off_) off = deviation * normal_(random_);
  }

 private:
  static constexpr double memory = 0.9;
  static constexpr double deviation = 0.25;

  void move(std::int64_t /*step*/) override {
    for (std::size_t r = 0; r < states_.size(); ++r) {
      off_[r] = memory * off_[r] + deviation * std::sqrt(1 - memory * memory) * normal_(random_);
      const double available = std::max(0.1, 1 + off_[r]);
      states_[r].cost = cost_at_speed(available);
      states_[r].cpu_seen = available * std::max(0.05, 1 + 0.05 * normal_(random_));
    }
  }
  std::vector<double> off_;
  std::normal_distribution<double> normal_;
};

// A quarter of the ranks lives on a quota, which a step overdraws or saves in
// turn.
class QuotaBursts final : public Generated {
 public:
  QuotaBursts(int ranks, std::uint64_t seed) : Generated(ranks, seed) {
    for (std::size_t r : random_quarter(random_, states_.size()))
      limited_.push_back({r, uniform(random_, 0.3, 0.66), 0, false});
  }

 private:
  struct Limited {
    std::size_t rank;
    double quota;
    std::int64_t steps_left;
    bool fast;
  };
  void move(std::int64_t /*step*/) override {
    for (Limited& limited : limited_) {
      if (limited.steps_left-- > 0) continue;
      limited.fast = !limited.fast;
      limited.steps_left = static_cast<std::int64_t>(uniform(random_, 8, 13)) - 1;
      states_[limited.rank].cost = cost_at_speed(limited.quota * (limited.fast ? 1.5 : 0.5));
    }
  }
  std::vector<Limited> limited_;
};

class NearDeath final : public Generated {
 public:
  using Generated::Generated;

 private:
  void move(std::int64_t step) override {
    const bool dying = step % 1000 >= 200 && step % 1000 < 500;
    states_.back().cost = cost_at_speed(dying && step < 1000 ? 0.02 : 1);
  }
};

// OmniLearn's heterogeneity levels: cores of groups of four ranks, 48 in all.
class Levels final : public Generated {
 public:
  using Generated::Generated;

 private:
  void move(std::int64_t step) override {
    constexpr int sequence[] = {0, 1, 2, 3, 3, 2, 1, 0};  // HL 1, 2, 4, 8, 8, 4, 2, 1
    constexpr double cores[4][4] = {
        {12, 12, 12, 12}, {12, 12, 8, 16}, {9, 9, 6, 24}, {6, 6, 4, 32}};
    const auto& level = cores[sequence[step / steps_a_level % 8]];
    for (std::size_t r = 0; r < states_.size(); ++r)
      states_[r].cost = cost_at_speed(level[r % 4] / 12);
  }
  static constexpr std::int64_t steps_a_level = 250;
};

constexpr NoiseModel plain{};
constexpr std::array kinds = {
    TraceKind{"equal", "equal ranks, 5 % noise", {.sigma = 0.05}},
    TraceKind{"static", "speeds 0.5, 0.5, 1, 2 in turn", plain},
    TraceKind{"floors", "four kinds of fixed costs, flat up to 64 samples", plain},
    TraceKind{"shifts", "a random quarter drops to 0.3-0.8 for about 100 of every 200 steps",
              plain},
    TraceKind{"drift", "sine drift of +-40 %, periods of 200-1,000 steps", plain},
    TraceKind{"spikes",
              "speeds as static, each rank 5 times slower on 2 % of its steps",
              {.spike_probability = 0.02}},
    TraceKind{"ar1", "AR(1) CPU availability, seen just before each step", plain},
    TraceKind{"quota", "a random quarter under a CPU quota: bursts of 8-12 steps", plain},
    TraceKind{"dying", "one rank at 0.02 for 300 steps and back", plain},
    TraceKind{"levels", "OmniLearn's heterogeneity levels", plain},
};

template <typename Kind>
std::unique_ptr<Trace> make(int ranks, std::uint64_t seed) {
  return std::make_unique<Kind>(ranks, seed);
}

}  // namespace

std::span<const TraceKind> trace_kinds() { return kinds; }

std::unique_ptr<Trace> make_trace(std::string_view kind, int ranks, std::uint64_t seed) {
  if (kind == "equal") return make<Generated>(ranks, seed);
  if (kind == "static" || kind == "spikes") return make<StaticSpeeds>(ranks, seed);
  if (kind == "floors") return make<Floors>(ranks, seed);
  if (kind == "shifts") return make<Shifts>(ranks, seed);
  if (kind == "drift") return make<Drift>(ranks, seed);
  if (kind == "ar1") return make<AutoRegressive>(ranks, seed);
  if (kind == "quota") return make<QuotaBursts>(ranks, seed);
  if (kind == "dying") return make<NearDeath>(ranks, seed);
  if (kind == "levels") return make<Levels>(ranks, seed);
  std::vector<std::string_view> names;
  names.reserve(kinds.size());
  for (const TraceKind& known : kinds) names.push_back(known.name);
  throw std::invalid_argument(
      fmt::format("unknown kind of trace '{}'; choose one of {}", kind, fmt::join(names, ", ")));
}

}  // namespace evenstep::lb
