#include <fmt/format.h>

#include "bench/bench.h"
#include "evenstep/session.h"

namespace evenstep::bench {
namespace {

constexpr std::int64_t samples_a_rank = 64;
constexpr int warm_up_steps = 20;
constexpr int steps_a_block = 10;

// Arithmetic that nothing but the processor's speed decides how long it takes.
double compute(std::int64_t rounds, double value) {
  for (std::int64_t i = 0; i < rounds; ++i) value = value * 0.999999 + 1e-6;
  return value;
}

// So many rounds a sample make a step of `step_ms`.
std::int64_t calibrate(double step_ms) {
  constexpr std::int64_t rounds = 2'000'000;
  volatile double sink = 0;
  constexpr int repeats = 5;
  std::vector<double> times;
  times.reserve(repeats);
  for (int i = 0; i < repeats; ++i)
    times.push_back(seconds_of([&] { sink = compute(rounds, sink); }));
  return static_cast<std::int64_t>(1e-3 * step_ms / median(times) * rounds / samples_a_rank);
}

class Job {
 public:
  Job(Communicator& communicator, const Options& options, const char* balance,
      std::int64_t rounds_a_sample)
      : rounds_a_sample_(rounds_a_sample),
        session_(communicator, make(communicator, options, balance)) {}

  double run(int steps) {
    return seconds_of([&] {
      for (int i = 0; i < steps; ++i) step();
    });
  }
  const Session& session() const { return session_; }

 private:
  static SessionOptions make(const Communicator& communicator, const Options& options,
                             const char* balance) {
    SessionOptions session;
    session.global_batch = samples_a_rank * communicator.size();
    session.gradients = options.gradients;
    session.balance = balance;
    return session;
  }
  void step() {
    const Share share = session_.begin_step();
    sink_ = compute(rounds_a_sample_ * share.count, sink_);
    session_.end_step({.weight = static_cast<double>(share.count)});
  }

  std::int64_t rounds_a_sample_;
  Session session_;
  double sink_ = 0;
};

}  // namespace

Json measure_balancing(Communicator& communicator, const Options& options) {
  const std::string wanted = std::to_string(calibrate(options.step_ms));
  const std::int64_t rounds = std::stoll(communicator.gather(wanted)[0]);
  Job off(communicator, options, "off", rounds);
  Job even(communicator, options, "even", rounds);
  off.run(warm_up_steps);
  even.run(warm_up_steps);
  std::vector<double> ratios;
  std::vector<double> step_seconds;
  std::int64_t allocated = 0;
  std::int64_t calls = 0;
  for (int pair = 0; pair < options.pairs; ++pair) {
    const double without = off.run(steps_a_block);
    const std::int64_t allocations_before = allocations();
    const std::int64_t calls_before = communicator.sum_calls();
    const double with = even.run(steps_a_block);
    allocated += allocations() - allocations_before;
    calls += communicator.sum_calls() - calls_before;
    ratios.push_back(with / without);
    step_seconds.push_back(without / steps_a_block);
  }
  const auto steps = static_cast<double>(options.pairs * steps_a_block);
  const double deciding =
      1e-9 * static_cast<double>(even.session().balance_ns()) / (steps + warm_up_steps);
  const double overhead = median(ratios) - 1;
  if (communicator.rank() == 0)
    fmt::print(
        "balancing {} equal ranks: {:+.2f} % (median of {} pairs, steps of {:.1f} ms, {:.1f} "
        "us of each for deciding, {} re-sizes); a steady step has {:.2f} allocations and "
        "{:.2f} all-reduces\n",
        communicator.size(), 100 * overhead, options.pairs, 1e3 * median(step_seconds),
        1e6 * deciding, even.session().resizes(), static_cast<double>(allocated) / steps,
        static_cast<double>(calls) / steps);
  return {{"ranks", communicator.size()},
          {"pairs", options.pairs},
          {"step_seconds", median(step_seconds)},
          {"overhead", overhead},
          {"ratios", ratios},
          {"deciding_seconds", deciding},
          {"resizes", even.session().resizes()},
          {"allocations_per_step", static_cast<double>(allocated) / steps},
          {"collectives_per_step", static_cast<double>(calls) / steps}};
}

}  // namespace evenstep::bench
