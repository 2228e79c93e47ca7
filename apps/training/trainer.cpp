#include "training/trainer.h"

#include <fmt/format.h>
#include <omp.h>

#include <cmath>

#include "evenstep/version.h"
#include "training/calibration.h"
#include "training/profile_report.h"
#include "training/summary.h"

namespace evenstep::train {
namespace {

constexpr double bytes_per_mb = 1 << 20;

void refuse_more_than(std::int64_t batch, std::int64_t samples) {
  if (batch > samples)
    throw UsageError(
        fmt::format("--global-batch (times --accumulate) is {}, the data has {} samples; lower it",
                    batch, samples));
}

// Biases, and the gains of normalisation, are what has one dimension.
std::vector<ParameterTensor> tensors(std::span<const kernels::ParameterRange> ranges) {
  std::vector<ParameterTensor> all;
  for (const kernels::ParameterRange& range : ranges)
    if (range.trained) all.push_back({range.first, range.count, range.shape.size() > 1});
  return all;
}

// A larger last chunk leaves more of backward to overlap with; beyond some hundred samples backward
// is longer than most sums, and memory grows. Shares of twice the mean still fit.
LastChunk last_chunk_of(const Options& options, int ranks) {
  constexpr std::int64_t largest = 1024;
  constexpr std::size_t bytes = std::size_t{256} << 20;
  if (options.last_chunk > 0) return {.samples = static_cast<int>(options.last_chunk)};
  if (options.overlap == "off" || ranks == 1) return {};
  return {static_cast<int>(std::min(largest, 2 * options.step_batch() / ranks)), bytes};
}

// By a network's largest chunk, which memory limits, of all ranks.
std::vector<double> last_parts(const kernels::ChunkMenu& menu, const Options& options,
                               Communicator& communicator) {
  if (options.last_chunk > 0) return {1};
  int largest = menu.largest();
  for (const std::string& text : communicator.gather(std::to_string(largest)))
    largest = std::max(largest, std::stoi(text));
  return kernels::last_parts(menu, largest,
                             static_cast<double>(options.step_batch()) / communicator.size());
}

std::string_view layer_of(const kernels::ParameterRange& range) {
  return std::string_view(range.name).substr(0, range.name.rfind('.'));
}

// A layer's gradients are final together.
std::vector<std::int64_t> layer_ends(const kernels::Trainable& model) {
  std::vector<std::int64_t> ends;
  std::string_view layer;
  for (const kernels::ParameterRange& range : model.parameters()) {
    if (ends.empty() || layer_of(range) != layer) ends.emplace_back();
    layer = layer_of(range);
    ends.back() = range.first + range.count;
  }
  if (ends.empty() || ends.back() < model.parameter_count())
    ends.push_back(model.parameter_count());
  return ends;
}

}  // namespace

Trainer::Trainer(Communicator& communicator, Options options, const MakeWorkload& make_workload)
    : communicator_(communicator), options_(std::move(options)) {
  options_.threads = threads_of(communicator);
  omp_set_num_threads(options_.threads);
  agree_on_errors(communicator_, [&] { set_up_locally(make_workload); });
  refuse_different_options();
  set_up_session();
  probe_ = std::make_unique<AvailabilityProbe>(options_.threads);
  agree_on_errors(communicator_, [this] { open_outputs(); });
}

void Trainer::set_up_locally(const MakeWorkload& make_workload) {
  check_against_world(options_, communicator_.size());
  slowdown_ = std::make_unique<Slowdown>(
      options_, communicator_.rank(), [this] { return prefetcher_ ? prefetcher_->cpu_ns() : 0; });
  options_.largest_last_chunk = last_chunk_of(options_, communicator_.size());
  workload_ = make_workload(options_);
  refuse_more_than(options_.step_batch(), workload_->samples());
  parameters_.resize(static_cast<std::size_t>(model().parameter_count()));
  workload_->initialise(options_.seed, parameters_);
  model().load_parameters(parameters_);
  optimizer_ = std::make_unique<Optimizer>(options_.optimizer, model().trained_count(),
                                           tensors(model().parameters()));
  total_steps_ = options_.steps > 0 ? options_.steps : options_.epochs * steps_per_epoch();
  options_.schedule.total_steps = total_steps_;
  statistics_ = std::make_unique<Statistics>(total_steps_, communicator_.size());
  timeline_ = std::make_unique<Timeline>(!options_.timeline.empty(), total_steps_);
  if (options_.profile && communicator_.rank() == 0) profile_ = model().make_profile();
  progress_ = std::make_unique<Progress>(communicator_.rank() == 0, total_steps_);
}

// Last of the set-up, so that a job that cannot start leaves no file.
void Trainer::open_outputs() {
  const bool mine = communicator_.rank() == 0;
  const auto path = [&](const std::string& given) { return mine ? given : std::string(); };
  summary_file_ = OutputFile(path(options_.summary), OutputFile::Kind::whole);
  timeline_file_ = OutputFile(path(options_.timeline), OutputFile::Kind::whole);
  log_ = std::make_unique<StepLog>(OutputFile(path(options_.log), OutputFile::Kind::log));
}

// Before ranks exchange what depends on their options in form. A session of nothing compares.
void Trainer::refuse_different_options() {
  SessionOptions options;
  options.global_batch = 1;
  options.must_agree = options_.given;
  const Session compare(communicator_, options);
}

void Trainer::set_up_session() {
  SessionOptions options;
  options.global_batch = options_.step_batch();
  options.gradients = model().parameter_count();
  options.balance = options_.balance;
  options.predictor = options_.predictor;
  options.granule = model().granule();
  options.tail = options_.tail;
  options.stall = options_.stall;
  options.metrics = 1;      // correct answers
  options.average = false;  // the optimizer's pass does it
  options.overlap = options_.overlap;
  options.wire = options_.wire;
  options.bucket_bytes = static_cast<std::int64_t>(options_.bucket_mb * bytes_per_mb);
  options.layer_ends = layer_ends(model());
  last_parts_ = last_parts(model().menu(), options_, communicator_);
  options.backward_ways = static_cast<int>(last_parts_.size());
  options.must_agree = workload_->must_agree();
  load_any();  // what runs depends on the data: gradients that are zero are skipped
  if (options_.balance != "off")
    options.size_cost = measure_size_cost(communicator_, model(), options_.step_batch());
  std::vector<float> gradients;
  options.forecast = measure_forecast(communicator_, options_.balance, options_.step_batch(),
                                      options.size_cost, [&](std::int64_t share) {
                                        gradients.resize(parameters_.size());
                                        run_for_benchmark(share, gradients);
                                      });
  session_ = std::make_unique<Session>(communicator_, options);
  session_->watch_parameters(parameters_);
  may_prefetch_ = options_.prefetch == "auto";
  if (options_.prefetch == "on") start_prefetch();
}

void Trainer::load_any() {
  for (int i = 0; i < model().menu().largest(); ++i)
    workload_->load(i, 0, i % workload_->samples());
}

// By the partition now in force: if another comes, the difference is decoded when it is needed.
void Trainer::foresee_samples(std::int64_t step, const Share& share) {
  if (!prefetcher_) return;
  if (step == total_steps_) return prefetcher_->begin_step(0, 0, 0);
  const Batch batch = batch_of(step);
  // A short batch has other shares, about in proportion.
  const std::int64_t first = share.offset * batch.samples / share.batch;
  const std::int64_t end = (share.offset + share.count) * batch.samples / share.batch;
  prefetcher_->begin_step(batch.epoch, batch.position + first, end - first);
}

void Trainer::start_prefetch() {
  prefetcher_ = workload_->start_prefetch(options_.step_batch());
  may_prefetch_ = false;
}

// For this rank alone, since it changes no result. Measured with mlp: where loading took 6 % of a
// step and a core was to spare, steps were 9 % shorter; on full cores, where the loader takes its
// time from those who compute, 7 to 20 % longer.
void Trainer::consider_prefetch(std::int64_t step) {
  constexpr std::int64_t first = 3;
  constexpr std::int64_t last = 12;
  constexpr std::int64_t dear = 100;  // a part of own time
  if (!may_prefetch_ || step < first) return;
  if (step <= last) {
    load_ns_ += session_->phase_ns()[static_cast<std::size_t>(Phase::load)];
    own_ns_ += session_->own_ns();
  }
  if (step < last || load_ns_ * dear < own_ns_ || !session_->overlap_settled()) return;
  if (has_spare_core(communicator_) && session_->overlap() != Overlap::thread) start_prefetch();
}

void Trainer::run_for_benchmark(std::int64_t share, std::span<float> gradients) {
  std::int64_t done = 0;
  model().menu().for_each_chunk(share, [&](int chunk) {
    slowdown_->begin_chunk();
    model().forward(chunk);
    model().backward(chunk, {.first = done == 0, .last = done + chunk == share}, gradients,
                     nullptr);
    slowdown_->end_chunk();
    done += chunk;
  });
}

std::int64_t Trainer::steps_per_epoch() const {
  return (workload_->samples() + options_.step_batch() - 1) / options_.step_batch();
}

Trainer::Batch Trainer::batch_of(std::int64_t step) const {
  const std::int64_t position = step % steps_per_epoch() * options_.step_batch();
  return {step / steps_per_epoch(), position,
          std::min(options_.step_batch(), workload_->samples() - position)};
}

void Trainer::run() {
  if (communicator_.rank() == 0) print_start(*session_, communicator_, options_, *workload_);
  const std::int64_t start_ns = steady_clock().now_ns();
  calls_before_ = communicator_.sum_calls();
  profile(true);
  for (std::int64_t step = 0; step < total_steps_; ++step) {
    train_step(step);
    const bool epoch_ends = (step + 1) % steps_per_epoch() == 0;
    if (workload_->test_samples() > 0 && (epoch_ends || step + 1 == total_steps_)) evaluate(step);
  }
  collectives_per_step_ = static_cast<double>(communicator_.sum_calls() - calls_before_) /
                          static_cast<double>(total_steps_ - counted_from_);
  finish(1e-9 * static_cast<double>(steady_clock().now_ns() - start_ns));
}

void Trainer::train_step(std::int64_t step) {
  const Batch batch = batch_of(step);
  const Share share = session_->begin_step(batch.samples);
  foresee_samples(step + 1, share);
  const Sums sums = run_share(share, batch.epoch, batch.position + share.offset);
  session_->see(probe_->cpu_cores(), probe_->memory_mib());
  const StepResult result = session_->end_step(
      {static_cast<double>(share.count * model().targets()), sums.loss, {&sums.correct, 1}});
  statistics_->add(*session_, share.batch);
  log_->add(*session_, result, step);
  if (result.not_finite_rank >= 0) log_->finish({});  // its line, without waits
  refuse_not_finite(result, step);
  timeline_->add(*session_);
  if (result.skipped) count_skipped(result, step);
  update(result, step);
  progress_->show(*session_, result, *statistics_);
  tell_overlap(step);
  consider_prefetch(step);
  last_loss_ = result.loss;
}

Trainer::Sums Trainer::run_share(const Share& share, std::int64_t epoch,
                                 std::int64_t epoch_position) {
  const kernels::GradientReady ready = [this](std::int64_t first, std::int64_t count) {
    slowdown_->pause();
    session_->gradients_ready(first, count);
    slowdown_->resume();
  };
  if (share.count == 0) std::ranges::fill(session_->gradients(), 0.0F);
  Sums sums;
  std::int64_t done = 0;
  slowdown_->inject(Phase::load, share.step);
  session_->lap(Phase::load);  // of a rank without samples, too
  const auto run_chunk = [&](int chunk) {
    for (int i = 0; i < chunk; ++i) workload_->load(i, epoch, epoch_position + done + i);
    session_->lap(Phase::load);
    slowdown_->begin_chunk();
    if (done == 0) slowdown_->inject(Phase::forward, share.step);
    const kernels::LossSums chunk_sums = model().forward(chunk);
    session_->lap(Phase::forward);
    if (done == 0) slowdown_->inject(Phase::backward, share.step);
    model().backward(chunk, {.first = done == 0, .last = done + chunk == share.count},
                     session_->gradients(), &ready);
    slowdown_->end_chunk();
    session_->lap(Phase::backward);
    sums.loss += chunk_sums.loss;
    sums.correct += static_cast<double>(chunk_sums.correct);
    done += chunk;
  };
  model().menu().for_each_chunk(share.count, last_chunk(share.count), run_chunk);
  return sums;
}

int Trainer::last_chunk(std::int64_t share) const {
  const double part = last_parts_[static_cast<std::size_t>(session_->backward_way())];
  const int usual = model().menu().usual();
  const double samples =
      std::min<double>(part * static_cast<double>(share), model().menu().largest());
  return std::max(usual, static_cast<int>(samples) / usual * usual);
}

void Trainer::refuse_not_finite(const StepResult& result, std::int64_t step) const {
  if (result.not_finite_rank < 0) return;
  const auto rank = static_cast<std::size_t>(result.not_finite_rank);
  throw AgreedError(fmt::format(
      "step {}: the loss of rank {} on {} is not finite (lr {}); lower --lr or set --clip", step,
      rank, session_->hosts()[rank], learning_rate(options_.schedule, step)));
}

void Trainer::count_skipped(const StepResult& result, std::int64_t step) {
  ++skipped_steps_;
  if (result.weight == 0 || communicator_.rank() != 0) return;
  progress_->clear();
  fmt::print(stderr,
             "warning: step {}: gradients are too large for --wire {}, or not finite; the step is "
             "skipped, the next goes scaled down\n",
             step, options_.wire);
}

void Trainer::update(const StepResult& result, std::int64_t step) {
  slowdown_->inject(Phase::update, step);
  if (!result.skipped) {
    const auto trained = static_cast<std::size_t>(model().trained_count());
    const std::span<float> parameters(parameters_);
    const std::span<const float> sums = session_->gradients();
    optimizer_->step(parameters.first(trained), sums.first(trained),
                     learning_rate(options_.schedule, step),
                     static_cast<float>(clipped(sums.first(trained), 1 / result.weight, step)));
    move_averages(parameters.subspan(trained), sums.subspan(trained), kernels::average_rate,
                  static_cast<float>(1 / result.weight));
    model().load_parameters(parameters_);
  }
  session_->lap(Phase::update);
}

// Once, as soon as what was measured has settled it.
void Trainer::tell_overlap(std::int64_t step) {
  if (overlap_told_ || !session_->overlap_settled()) return;
  overlap_told_ = true;
  if (step + 1 < total_steps_) {  // what is counted is the steady steps
    calls_before_ = communicator_.sum_calls();
    counted_from_ = step + 1;
  }
  if (step == 0 || communicator_.rank() != 0) return;  // the start has told what was settled then
  progress_->clear();
  print_overlap(step, *session_, last_chunk(mean_share()));
}

// What to scale the sums of gradients by: `scale` makes averages of them. The same on all ranks.
double Trainer::clipped(std::span<const float> sums, double scale, std::int64_t step) const {
  if (options_.clip == 0) return scale;
  const double average = scale * norm(sums);
  if (!std::isfinite(average))
    throw AgreedError(fmt::format("step {}: the gradients are not finite; lower --lr", step));
  return average > options_.clip ? scale * options_.clip / average : scale;
}

void Trainer::profile(bool on) { model().set_profile(on && profile_ ? &*profile_ : nullptr); }

void Trainer::evaluate(std::int64_t step) {
  session_->pause();
  profile(false);
  const std::int64_t ranks = communicator_.size();
  std::int64_t next = workload_->test_samples() * communicator_.rank() / ranks;
  const std::int64_t end = workload_->test_samples() * (communicator_.rank() + 1) / ranks;
  kernels::LossSums mine;
  model().menu().for_each_chunk(end - next, [&](int chunk) {
    for (int i = 0; i < chunk; ++i) workload_->load_test(i, next++);
    const kernels::LossSums sums = model().evaluate(chunk);
    mine.loss += sums.loss;
    mine.correct += sums.correct;
  });
  test_loss_ = test_accuracy_ = 0;
  const auto targets = static_cast<double>(workload_->test_samples() * model().targets());
  for (const std::string& text :
       communicator_.gather(fmt::format("{} {}", mine.loss, mine.correct))) {
    test_loss_ += std::stod(text) / targets;
    test_accuracy_ += std::stod(text.substr(text.find(' '))) / targets;
  }
  progress_->clear();
  if (communicator_.rank() == 0)
    print_evaluation(step, last_loss_, test_loss_, test_accuracy_, *statistics_);
  profile(true);
  session_->resume();
}

void Trainer::finish(double wall_seconds) {
  progress_->clear();
  Summary summary = gather_summary(
      {communicator_, *session_, *statistics_, parameters_, model().trained_count(), options_,
       *workload_, wall_seconds, last_loss_, test_loss_, test_accuracy_, collectives_per_step_,
       last_chunk(mean_share()), prefetcher_ != nullptr, skipped_steps_});
  log_->finish(summary.last_wait_ns);
  if (communicator_.rank() == 0) {
    print_table(summary, workload_->unit());
    if (profile_) {
      const double peak = kernels::measure_peak_flops(dtype_of(workload_->dtype()));
      summary.json["profile"] = profile_json(*profile_, statistics_->steps(), peak);
      print_profile(summary.json["profile"]);
    }
    summary_file_.write(to_json(summary).dump(2) + "\n");
    summary_file_.commit();
  }
  timeline_->write(communicator_, timeline_file_);
}

}  // namespace evenstep::train
