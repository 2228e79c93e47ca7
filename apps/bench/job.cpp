#include "bench/job.h"

#include <fmt/format.h>
#include <omp.h>

#include <random>

#include "evenstep/mpi.h"
#include "training/calibration.h"

namespace evenstep::bench {
namespace {

constexpr int least_steps = 4;
constexpr double learning_rate = 1e-3;
constexpr unsigned classes = 10;

SessionOptions session_options(Communicator& communicator, const Options& options, const Work& work,
                               const std::string& balance, const Overlapping& overlapping) {
  SessionOptions session;
  session.global_batch = options.batch * communicator.size();
  session.gradients = work.network->parameter_count();
  session.granule = work.network->granule();
  session.balance = balance;
  if (session.balance != "off") session.size_cost = work.size_cost;
  std::vector<float> gradients;
  session.forecast = train::measure_forecast(
      communicator, balance, session.global_batch, session.size_cost, [&](std::int64_t share) {
        gradients.resize(work.parameters.size());
        work.run_share(share, 1, gradients, nullptr, nullptr);
      });
  session.overlap = overlapping.overlap;
  for (const kernels::ParameterRange& range : work.network->parameters())
    session.layer_ends.push_back(range.first + range.count);
  session.bucket_bytes = static_cast<std::int64_t>(overlapping.bucket_mb * (1 << 20));
  session.backward_ways = static_cast<int>(overlapping.last_parts.size());
  return session;
}

}  // namespace

Work::Work(Communicator& communicator, const Options& options, std::int64_t last_chunk)
    : probe(threads_of(communicator)) {
  omp_set_num_threads(threads_of(communicator));
  kernels::NetworkOptions chosen;
  chosen.model = options.model;
  chosen.last_chunk = static_cast<int>(last_chunk);
  agree_on_errors(communicator, [&] { network = kernels::make_network(chosen); });
  std::mt19937 random(1);
  std::uniform_real_distribution<float> pixel(-1, 1);
  std::ranges::generate(network->images(), [&] { return pixel(random); });
  std::ranges::generate(network->labels(),
                        [&] { return static_cast<std::int32_t>(random() % classes); });
  parameters.resize(static_cast<std::size_t>(network->parameter_count()));
  kernels::initialise_parameters(network->parameters(), 1, parameters);
  network->load_parameters(parameters);
  optimizer = std::make_unique<Optimizer>(OptimizerOptions{}, network->trained_count(),
                                          std::vector<ParameterTensor>{});
  size_cost = train::measure_size_cost(communicator, *network, options.batch * communicator.size());
}

void Work::run_share(std::int64_t samples, int chunk_at_end, std::span<float> gradients,
                     const kernels::GradientReady* ready, Session* session) const {
  const auto lap = [&](Phase phase) {
    if (session != nullptr) session->lap(phase);
  };
  if (samples == 0) std::ranges::fill(gradients, 0.0F);
  std::int64_t done = 0;
  network->menu().for_each_chunk(samples, chunk_at_end, [&](int chunk) {
    network->forward(chunk);
    lap(Phase::forward);
    network->backward(chunk, {.first = done == 0, .last = done + chunk == samples}, gradients,
                      ready);
    lap(Phase::backward);
    done += chunk;
  });
}

std::vector<double> last_parts(const Work& work, const Options& options) {
  const kernels::ChunkMenu& menu = work.network->menu();
  return kernels::last_parts(menu, menu.largest(), static_cast<double>(options.batch));
}

Job::Job(Communicator& communicator, const Options& options, Work& work, const std::string& balance,
         const Overlapping& overlapping)
    : work_(work),
      last_parts_(overlapping.last_parts),
      session_(std::make_unique<Session>(
          communicator, session_options(communicator, options, work, balance, overlapping))) {
  session_->watch_parameters(work_.parameters);
  ready_ = [this](std::int64_t first, std::int64_t count) {
    session_->gradients_ready(first, count);
  };
  session_->pause();
}

double Job::run(int steps) {
  return seconds_of([&] {
    session_->resume();
    for (int i = 0; i < steps; ++i) step();
    session_->pause();
  });
}

void Job::settle() {
  run(warm_up_steps);
  while (!session_->overlap_settled()) run(1);
  take_means();
}

void Job::step() {
  const Share share = session_->begin_step();
  const double part = last_parts_[static_cast<std::size_t>(session_->backward_way())];
  work_.run_share(share.count, static_cast<int>(part * static_cast<double>(share.count)),
                  session_->gradients(), &ready_, session_.get());
  session_->see(work_.probe.cpu_cores(), work_.probe.memory_mib());
  session_->end_step({.weight = static_cast<double>(share.count)});
  const auto trained = static_cast<std::size_t>(work_.network->trained_count());
  work_.optimizer->step(std::span(work_.parameters).first(trained),
                        session_->gradients().first(trained), learning_rate);
  work_.network->load_parameters(work_.parameters);
  session_->lap(Phase::update);
  const auto phases = session_->phase_ns();
  sums_.step += 1e-9 * static_cast<double>(session_->own_ns() + session_->last_wait_ns());
  sums_.wait += 1e-9 * static_cast<double>(session_->last_wait_ns());
  sums_.backward += 1e-9 * static_cast<double>(phases[static_cast<std::size_t>(Phase::backward)]);
  ++counted_;
}

// As rank 0 saw it.
int steps_in(Communicator& communicator, double seconds, Job& job) {
  const double step_seconds = job.run(warm_up_steps) / warm_up_steps;
  const std::string mine = fmt::format("{:.0f}", seconds / step_seconds);
  return std::max(least_steps, std::stoi(communicator.gather(mine)[0]));
}

std::vector<Turn> take_turns(Job& base, Job& other, int pairs) {
  std::vector<Turn> turns;
  for (int pair = 0; pair < pairs; ++pair) {
    const bool other_first = pair % 2 == 1;
    const double first = (other_first ? other : base).run(steps_a_turn);
    const double second = (other_first ? base : other).run(steps_a_turn);
    turns.push_back(other_first ? Turn{second, first} : Turn{first, second});
  }
  return turns;
}

std::vector<std::vector<double>> take_rounds(std::span<Job* const> jobs, int steps, int rounds) {
  const std::size_t count = jobs.size();
  std::vector<std::vector<double>> seconds(count);
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
    for (std::size_t turn = 0; turn < count; ++turn) {
      const std::size_t step = round % 2 == 0 ? turn : count - 1 - turn;
      const std::size_t job = (round / 2 + step) % count;
      seconds[job].push_back(jobs[job]->run(steps));
    }
  return seconds;
}

void with_new_jobs(int pairs, const std::function<std::unique_ptr<Job>(int which)>& make,
                   const std::function<void(Job& base, Job& other, int pairs)>& measure) {
  constexpr int pairs_a_round = 10;
  for (int done = 0; done < pairs; done += pairs_a_round) {
    std::unique_ptr<Job> jobs[2];
    const int first = done / pairs_a_round % 2;
    for (const int which : {first, 1 - first}) {
      jobs[which] = make(which);
      jobs[which]->settle();
    }
    measure(*jobs[0], *jobs[1], std::min(pairs_a_round, pairs - done));
  }
}

Job::Means Job::take_means() {
  const double steps = std::max(1, counted_);
  const Means means = {sums_.step / steps, sums_.wait / steps, sums_.backward / steps};
  sums_ = {};
  counted_ = 0;
  return means;
}

}  // namespace evenstep::bench
