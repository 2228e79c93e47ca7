#include "bench/job.h"

#include <omp.h>

#include <random>

#include "evenstep/mpi.h"
#include "train/calibration.h"

namespace evenstep::bench {
namespace {

constexpr double learning_rate = 1e-3;

SessionOptions session_options(Communicator& communicator, const Options& options,
                               const JobOptions& job, kernels::Network& network) {
  SessionOptions session;
  session.global_batch = options.batch * communicator.size();
  session.gradients = network.parameter_count();
  session.granule = network.granule();
  session.balance = job.balance;
  if (session.balance != "off")
    session.size_cost = train::measure_size_cost(communicator, network, session.global_batch);
  session.overlap = job.overlap;
  for (const kernels::ParameterRange& range : network.parameters())
    session.layer_ends.push_back(range.first + range.count);
  session.bucket_bytes = static_cast<std::int64_t>(options.bucket_mb * (1 << 20));
  return session;
}

}  // namespace

Job::Job(Communicator& communicator, const Options& options, const JobOptions& job)
    : last_chunk_(job.last_chunk) {
  omp_set_num_threads(threads_of(communicator));
  kernels::NetworkOptions network;
  network.model = options.model;
  network.last_chunk = last_chunk_;
  agree_on_errors(communicator, [&] { network_ = kernels::make_network(network); });
  std::mt19937 random(1);
  std::uniform_real_distribution<float> pixel(-1, 1);
  std::ranges::generate(network_->images(), [&] { return pixel(random); });
  std::ranges::generate(network_->labels(),
                        [&] { return static_cast<std::int32_t>(random() % 10); });
  parameters_.resize(static_cast<std::size_t>(network_->parameter_count()));
  kernels::initialise_parameters(network_->parameters(), 1, parameters_);
  network_->load_parameters(parameters_);
  optimizer_ = std::make_unique<Optimizer>(OptimizerOptions{}, network_->trained_count(),
                                           std::vector<ParameterTensor>{});
  session_ = std::make_unique<Session>(communicator,
                                       session_options(communicator, options, job, *network_));
  session_->watch_parameters(parameters_);
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

void Job::step() {
  const Share share = session_->begin_step();
  run_share(share.count);
  session_->end_step({.weight = static_cast<double>(share.count)});
  const auto trained = static_cast<std::size_t>(network_->trained_count());
  optimizer_->step(std::span(parameters_).first(trained), session_->gradients().first(trained),
                   learning_rate);
  network_->load_parameters(parameters_);
  session_->lap(Phase::update);
  const auto phases = session_->phase_ns();
  sums_.step += 1e-9 * static_cast<double>(session_->own_ns() + session_->last_wait_ns());
  sums_.wait += 1e-9 * static_cast<double>(session_->last_wait_ns());
  sums_.backward += 1e-9 * static_cast<double>(phases[static_cast<std::size_t>(Phase::backward)]);
  ++counted_;
}

void Job::run_share(std::int64_t samples) {
  if (samples == 0) std::ranges::fill(session_->gradients(), 0.0F);
  std::int64_t done = 0;
  network_->menu().for_each_chunk(samples, last_chunk_, [&](int chunk) {
    network_->forward(chunk);
    session_->lap(Phase::forward);
    const kernels::Trainable::Pass pass{.first = done == 0, .last = done + chunk == samples};
    network_->backward(chunk, pass, session_->gradients(), &ready_);
    session_->lap(Phase::backward);
    done += chunk;
  });
}

Job::Means Job::take_means() {
  const double steps = std::max(1, counted_);
  const Means means = {sums_.step / steps, sums_.wait / steps, sums_.backward / steps};
  sums_ = {};
  counted_ = 0;
  return means;
}

}  // namespace evenstep::bench
