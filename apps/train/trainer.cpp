#include "train/trainer.h"

#include <fmt/format.h>
#include <omp.h>
#include <zlib.h>

#include <cmath>
#include <set>

#include "evenstep/benchmark.h"
#include "evenstep/version.h"
#include "train/calibration.h"
#include "train/profile_report.h"
#include "train/summary.h"

namespace evenstep::train {
namespace {

constexpr double bytes_per_mb = 1 << 20;

std::string checksum(const kernels::Dataset& data) {
  auto sum = crc32(0, data.labels.data(), static_cast<uInt>(data.labels.size()));
  sum = crc32_z(sum, data.pixels.data(), data.pixels.size());
  return fmt::format("{:08x}", sum);
}

void refuse_more_than(std::int64_t batch, const kernels::Dataset& data) {
  if (batch > data.samples())
    throw UsageError(
        fmt::format("--global-batch (times --accumulate) is {}, the data has {} samples; lower it",
                    batch, data.samples()));
}

// What has one dimension, biases above all, is left out of LARS's scaling, as usual.
std::vector<ParameterTensor> tensors(std::span<const kernels::ParameterRange> ranges) {
  std::vector<ParameterTensor> all;
  for (const kernels::ParameterRange& range : ranges)
    if (range.trained) all.push_back({range.first, range.count, range.shape.size() > 1});
  return all;
}

void refuse_other_shape(const kernels::Dataset& test, const kernels::Dataset& train) {
  if (test.shape.height != train.shape.height || test.shape.width != train.shape.width)
    throw Error(fmt::format(
        "the test images have {}x{} pixels, the training images {}x{}; they must belong together",
        test.shape.height, test.shape.width, train.shape.height, train.shape.width));
}

std::string_view layer_of(const kernels::ParameterRange& range) {
  return std::string_view(range.name).substr(0, range.name.rfind('.'));
}

// A layer's gradients are final together.
std::vector<std::int64_t> layer_ends(const kernels::Network& network) {
  std::vector<std::int64_t> ends;
  std::string_view layer;
  for (const kernels::ParameterRange& range : network.parameters()) {
    if (ends.empty() || layer_of(range) != layer) ends.emplace_back();
    layer = layer_of(range);
    ends.back() = range.first + range.count;
  }
  return ends;
}

}  // namespace

Trainer::Trainer(Communicator& communicator, Options options)
    : communicator_(communicator), options_(std::move(options)) {
  options_.threads = threads_of(communicator);
  omp_set_num_threads(options_.threads);
  agree_on_errors(communicator_, [this] { set_up_locally(); });
  refuse_different_options();
  set_up_session();
  probe_ = std::make_unique<AvailabilityProbe>(options_.threads);
  agree_on_errors(communicator_, [this] { open_outputs(); });
}

void Trainer::set_up_locally() {
  check_against_world(options_, communicator_.size());
  slowdown_ = std::make_unique<Slowdown>(options_, communicator_.rank());
  train_data_ = kernels::read_idx_train(options_.data);
  if (options_.evaluate) {
    test_data_ = kernels::read_idx_test(options_.data);
    refuse_other_shape(test_data_, train_data_);
  }
  refuse_more_than(options_.step_batch(), train_data_);
  normaliser_ = std::make_unique<kernels::Normaliser>(kernels::pixel_statistics(train_data_));
  network_ = kernels::make_network({.model = options_.model,
                                    .dtype = options_.dtype,
                                    .input = train_data_.shape,
                                    .classes = train_data_.classes,
                                    .label_smoothing = options_.label_smoothing,
                                    .seed = options_.seed});
  parameters_.resize(static_cast<std::size_t>(network_->parameter_count()));
  kernels::initialise_parameters(network_->parameters(), options_.seed, parameters_);
  network_->load_parameters(parameters_);
  optimizer_ = std::make_unique<Optimizer>(options_.optimizer, network_->trained_count(),
                                           tensors(network_->parameters()));
  sampler_ = std::make_unique<Sampler>(train_data_.samples(), options_.seed);
  total_steps_ = options_.steps > 0 ? options_.steps : options_.epochs * steps_per_epoch();
  options_.schedule.total_steps = total_steps_;
  statistics_ = std::make_unique<Statistics>(total_steps_, communicator_.size());
  timeline_ = std::make_unique<Timeline>(!options_.timeline.empty(), total_steps_);
  if (options_.profile && communicator_.rank() == 0) profile_ = network_->make_profile();
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
  options.gradients = network_->parameter_count();
  options.balance = options_.balance;
  options.predictor = options_.predictor;
  options.granule = network_->granule();
  options.tail = options_.tail;
  options.stall = options_.stall;
  options.metrics = 1;  // correct answers
  options.overlap = options_.overlap == "auto" ? "off" : options_.overlap;
  options.bucket_bytes = static_cast<std::int64_t>(options_.bucket_mb * bytes_per_mb);
  options.layer_ends = layer_ends(*network_);
  options.must_agree.emplace_back("training data of the checksum", checksum(train_data_));
  options.must_agree.emplace_back("test data of the checksum", checksum(test_data_));
  stage_any();  // what runs depends on the data: gradients that are zero are skipped
  if (options_.balance != "off")
    options.size_cost = measure_size_cost(communicator_, *network_, options_.step_batch());
  if (options_.balance == "static" || options_.balance == "lbbsp-gpu-2018")
    options.forecast = foresee(options.size_cost);
  session_ = std::make_unique<Session>(communicator_, options);
  session_->watch_parameters(parameters_);
}

void Trainer::stage_any() {
  for (int i = 0; i < network_->menu().largest(); ++i)
    stage(train_data_, i, i % train_data_.samples());
}

// `static` goes by the time of an even share, `lbbsp-gpu-2018` by times from one sample to twice
// that.
Forecast Trainer::foresee(std::span<const std::int64_t> size_cost) {
  const std::int64_t batch = options_.step_batch();
  const std::int64_t even = std::max<std::int64_t>(1, batch / communicator_.size());
  std::set<std::int64_t> sizes = {even};
  if (options_.balance == "lbbsp-gpu-2018")
    sizes = {1,
             (even + 3) / 4,
             (even + 1) / 2,
             even,
             std::min(even * 3 / 2, batch),
             std::min(even * 2, batch)};
  const std::vector<std::int64_t> ascending(sizes.begin(), sizes.end());
  std::vector<float> gradients(parameters_.size());
  const auto times_ns = benchmark(communicator_, ascending,
                                  [&](std::int64_t share) { run_for_benchmark(share, gradients); });
  return fit_forecast(work_of(ascending, size_cost), times_ns);
}

void Trainer::run_for_benchmark(std::int64_t share, std::span<float> gradients) {
  std::int64_t done = 0;
  network_->menu().for_each_chunk(share, [&](int chunk) {
    slowdown_->begin_chunk();
    network_->forward(chunk);
    network_->backward(chunk, {.first = done == 0, .last = done + chunk == share}, gradients,
                       nullptr);
    slowdown_->end_chunk();
    done += chunk;
  });
}

std::int64_t Trainer::steps_per_epoch() const {
  return (train_data_.samples() + options_.step_batch() - 1) / options_.step_batch();
}

void Trainer::run() {
  if (communicator_.rank() == 0) print_start(*session_, communicator_, options_, *network_);
  const std::int64_t start_ns = steady_clock().now_ns();
  collectives_ = communicator_.sum_calls();
  profile(true);
  for (std::int64_t step = 0; step < total_steps_; ++step) {
    train_step(step);
    const bool epoch_ends = (step + 1) % steps_per_epoch() == 0;
    if (options_.evaluate && (epoch_ends || step + 1 == total_steps_)) evaluate(step);
  }
  collectives_ = communicator_.sum_calls() - collectives_;
  finish(1e-9 * static_cast<double>(steady_clock().now_ns() - start_ns));
}

void Trainer::train_step(std::int64_t step) {
  const std::int64_t epoch = step / steps_per_epoch();
  const std::int64_t position = step % steps_per_epoch() * options_.step_batch();
  const Share share =
      session_->begin_step(std::min(options_.step_batch(), train_data_.samples() - position));
  const Sums sums = run_share(share, epoch, position + share.offset);
  session_->see(probe_->cpu_cores(), probe_->memory_mib());
  const StepResult result =
      session_->end_step({static_cast<double>(share.count), sums.loss, {&sums.correct, 1}});
  statistics_->add(*session_, share.batch);
  log_->add(*session_, result, step);
  if (result.not_finite_rank >= 0) log_->finish({});  // its line, without waits
  refuse_not_finite(result, step);
  timeline_->add(*session_);
  update(result, step);
  progress_->show(*session_, result, *statistics_);
  last_loss_ = result.loss;
}

Trainer::Sums Trainer::run_share(const Share& share, std::int64_t epoch,
                                 std::int64_t epoch_position) {
  const kernels::GradientReady ready = [this](std::int64_t first, std::int64_t count) {
    session_->gradients_ready(first, count);
  };
  if (share.count == 0) std::ranges::fill(session_->gradients(), 0.0F);
  Sums sums;
  std::int64_t done = 0;
  slowdown_->inject(Phase::load, share.step);
  session_->lap(Phase::load);  // of a rank without samples, too
  network_->menu().for_each_chunk(share.count, [&](int chunk) {
    for (int i = 0; i < chunk; ++i) {
      const std::int64_t position = epoch_position + done + i;
      stage(train_data_, i, sampler_->at(epoch, position));
      network_->sample_keys()[static_cast<std::size_t>(i)] =
          static_cast<std::uint64_t>(epoch * train_data_.samples() + position);
    }
    session_->lap(Phase::load);
    slowdown_->begin_chunk();
    if (done == 0) slowdown_->inject(Phase::forward, share.step);
    const kernels::LossSums chunk_sums = network_->forward(chunk);
    session_->lap(Phase::forward);
    if (done == 0) slowdown_->inject(Phase::backward, share.step);
    network_->backward(chunk, {.first = done == 0, .last = done + chunk == share.count},
                       session_->gradients(), &ready);
    slowdown_->end_chunk();
    session_->lap(Phase::backward);
    sums.loss += chunk_sums.loss;
    sums.correct += static_cast<double>(chunk_sums.correct);
    done += chunk;
  });
  return sums;
}

void Trainer::stage(const kernels::Dataset& data, int at, std::int64_t index) {
  const auto size = static_cast<std::size_t>(data.shape.elements());
  const auto place = static_cast<std::size_t>(at);
  normaliser_->write(data, index, network_->images().subspan(place * size, size));
  network_->labels()[place] = data.labels[static_cast<std::size_t>(index)];
}

void Trainer::refuse_not_finite(const StepResult& result, std::int64_t step) const {
  if (result.not_finite_rank < 0) return;
  const auto rank = static_cast<std::size_t>(result.not_finite_rank);
  throw AgreedError(fmt::format(
      "step {}: the loss of rank {} on {} is not finite (lr {}); lower --lr or set --clip", step,
      rank, session_->hosts()[rank], learning_rate(options_.schedule, step)));
}

void Trainer::update(const StepResult& result, std::int64_t step) {
  slowdown_->inject(Phase::update, step);
  if (!result.skipped) {
    if (options_.clip > 0) clip(step);
    const auto trained = static_cast<std::size_t>(network_->trained_count());
    const std::span<float> parameters(parameters_);
    const std::span<float> gradients = session_->gradients();
    optimizer_->step(parameters.first(trained), gradients.first(trained),
                     learning_rate(options_.schedule, step));
    move_averages(parameters.subspan(trained), gradients.subspan(trained), kernels::average_rate);
    network_->load_parameters(parameters_);
  }
  session_->lap(Phase::update);
}

// The same on all ranks: the norm is of the average.
void Trainer::clip(std::int64_t step) {
  const auto trained =
      session_->gradients().first(static_cast<std::size_t>(network_->trained_count()));
  if (!std::isfinite(clip_by_norm(trained, options_.clip)))
    throw AgreedError(fmt::format("step {}: the gradients are not finite; lower --lr", step));
}

void Trainer::profile(bool on) { network_->set_profile(on && profile_ ? &*profile_ : nullptr); }

void Trainer::evaluate(std::int64_t step) {
  session_->pause();
  profile(false);
  const std::int64_t ranks = communicator_.size();
  std::int64_t next = test_data_.samples() * communicator_.rank() / ranks;
  const std::int64_t end = test_data_.samples() * (communicator_.rank() + 1) / ranks;
  std::int64_t correct = 0;
  network_->menu().for_each_chunk(end - next, [&](int chunk) {
    for (int i = 0; i < chunk; ++i) stage(test_data_, i, next++);
    correct += network_->evaluate(chunk).correct;
  });
  std::int64_t all_correct = 0;
  for (const std::string& text : communicator_.gather(std::to_string(correct)))
    all_correct += std::stoll(text);
  test_accuracy_ = static_cast<double>(all_correct) / static_cast<double>(test_data_.samples());
  progress_->clear();
  if (communicator_.rank() == 0) print_evaluation(step, last_loss_, test_accuracy_, *statistics_);
  profile(true);
  session_->resume();
}

void Trainer::finish(double wall_seconds) {
  progress_->clear();
  Summary summary = gather_summary({communicator_, *session_, *statistics_, parameters_,
                                    network_->trained_count(), options_, wall_seconds, last_loss_,
                                    test_accuracy_, collectives_});
  log_->finish(summary.last_wait_ns);
  if (communicator_.rank() == 0) {
    print_table(summary);
    if (profile_) {
      summary.json["profile"] = profile_json(*profile_, statistics_->steps(),
                                             kernels::measure_peak_flops(options_.dtype));
      print_profile(summary.json["profile"]);
    }
    summary_file_.write(to_json(summary).dump(2) + "\n");
    summary_file_.commit();
  }
  timeline_->write(communicator_, timeline_file_);
}

}  // namespace evenstep::train
