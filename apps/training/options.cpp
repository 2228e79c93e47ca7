#include "training/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <sstream>

#include "common/checks.h"
#include "common/command_line.h"
#include "evenstep/error.h"
#include "evenstep/session.h"
#include "lb/predictor.h"
#include "lb/sizer.h"
#include "lb/tail.h"

namespace evenstep::train {
namespace {

constexpr std::int64_t largest_batch = std::int64_t{1} << 31;
constexpr std::int64_t largest_steps = std::int64_t{1} << 40;
constexpr double least_speed = 0.001;  // of --emulate
constexpr double most_stall_seconds = 1e6;

// Promised by the design and not there yet: refused by name rather than as unknown.
constexpr const char* flags_to_come[] = {"--checkpoint", "--checkpoint-every", "--resume",
                                         "--on-failure", "--reproducible",     "--time-limit"};

constexpr const char* on_off[] = {"on", "off"};
constexpr const char* waits[] = {"auto", "spin", "yield", "sleep"};
constexpr const char* overlaps[] = {"auto", "off", "tests", "thread"};
constexpr const char* wires[] = {"f32", "bf16", "f16"};
constexpr const char* optimizers[] = {"sgd", "adamw", "lars"};
constexpr const char* schedules[] = {"constant", "cosine", "step"};

double emulated_speed(const std::string& text) {
  const std::string wrong = real(least_speed, 1)(text);
  if (!wrong.empty()) throw UsageError("--emulate: " + wrong + "; give one speed a rank");
  return std::stod(text);
}

std::vector<double> parse_emulate(const std::string& text) {
  std::vector<double> speeds;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ',');)
    speeds.push_back(emulated_speed(field));
  if (text.empty() || text.ends_with(',')) emulated_speed("");
  return speeds;
}

std::int64_t number_in(const std::string& spec, const std::string& text, std::int64_t most) {
  const std::string wrong = whole(0, most)(text);
  if (!wrong.empty())
    throw UsageError(fmt::format("--inject {}: {}; give rank:phase:ms[:from-to]", spec, wrong));
  std::int64_t value = 0;
  CLI::detail::lexical_cast(text, value);  // as whole() read it
  return value;
}

Injection parse_injection(const std::string& spec) {
  std::vector<std::string> fields;
  std::istringstream stream(spec);
  for (std::string field; std::getline(stream, field, ':');) fields.push_back(field);
  if (spec.ends_with(':')) fields.emplace_back();
  if (fields.size() < 3 || fields.size() > 4)
    throw UsageError(
        fmt::format("--inject {}: {} fields; give rank:phase:ms[:from-to]", spec, fields.size()));
  Injection injection;
  injection.rank = static_cast<int>(number_in(spec, fields[0], INT32_MAX));
  while (injection.phase < phases && fields[1] != name(static_cast<Phase>(injection.phase)))
    ++injection.phase;
  if (injection.phase == phases)
    throw UsageError(
        fmt::format("--inject {}: '{}' is no phase; choose one of load, forward, backward, update",
                    spec, fields[1]));
  injection.delay_ns = number_in(spec, fields[2], 1'000'000) * 1'000'000;
  if (fields.size() == 4) {
    const std::size_t dash = fields[3].find('-');
    injection.first_step = number_in(spec, fields[3].substr(0, dash), largest_steps);
    if (dash != std::string::npos)
      injection.last_step = number_in(spec, fields[3].substr(dash + 1), largest_steps);
  }
  if (injection.last_step < injection.first_step)
    throw UsageError(
        fmt::format("--inject {}: its last step is {}, its first {}; put the lower one first", spec,
                    injection.last_step, injection.first_step));
  return injection;
}

// What CLI11 cannot put into the options as they are.
struct Texts {
  std::string eval = "on";
  std::string emulate;
  std::vector<std::string> inject;
};

void add_job_options(CLI::App& app, Options& o, Texts& texts) {
  app.add_option("--global-batch", o.global_batch, "samples of a step, over all ranks")
      ->check(whole(1, largest_batch));
  app.add_option("--accumulate", o.accumulate,
                 "global batches whose gradients are summed before the one all-reduce and update")
      ->check(whole(1, largest_batch));
  auto* epochs =
      app.add_option("--epochs", o.epochs, "passes over the data")->check(whole(1, largest_steps));
  app.add_option("--steps", o.steps, "steps instead of epochs")
      ->check(whole(1, largest_steps))
      ->excludes(epochs);
  app.add_option("--seed", o.seed, "of initial weights and sample order")
      ->check(whole(0, INT64_MAX));
  app.add_option("--eval", texts.eval, "test accuracy after each epoch and at the end")
      ->check(one_of(std::span(on_off)));
  app.add_option("--prefetch", o.prefetch,
                 "read and decode the next step's samples on a thread; auto: where a core is to "
                 "spare and loading takes more than a hundredth of a step")
      ->check(one_of(std::span(auto_on_off)));
  app.add_option("--threads", o.threads,
                 "a rank computes with; default: OMP_NUM_THREADS, or its part of the node's cores")
      ->check(whole(1, 4096));
}

void add_balance_options(CLI::App& app, Options& o, Texts& texts) {
  app.add_option("--balance", o.balance, "how shares are sized")->check(one_of(lb::sizer_names()));
  app.add_option("--predictor", o.predictor, "what the sizer lbbsp-cpu forecasts speeds with")
      ->check(one_of(lb::predictor_names()));
  app.add_option("--tail", o.tail,
                 "what of the ranks' records travels in a step; auto: all, or in turns and news "
                 "first above 256 ranks")
      ->check(one_of(lb::tail_names()));
  app.add_option("--wait", o.wait, "how a rank waits for the others")
      ->check(one_of(std::span(waits)));
  app.add_option("--overlap", o.overlap,
                 "of communication with backward; auto: the fastest in the first steps")
      ->check(one_of(std::span(overlaps)));
  app.add_option("--wire", o.wire,
                 "type in which gradients travel; bf16, f16: half the bytes, rounded")
      ->check(one_of(std::span(wires)));
  app.add_option("--bucket-mb", o.bucket_mb,
                 "least size of a bucket of gradients but the last; 0: measured")
      ->check(real(0, 1024));
  app.add_option(
         "--last-chunk", o.last_chunk,
         "samples up to which a share's last chunk may be larger than the others, which leaves "
         "more of backward to overlap with; 0: measured")
      ->check(whole(0, 65536));
  app.add_option("--stall-warn", o.stall.warn_seconds,
                 "seconds of waiting in a step until the late ranks are named; 0: never")
      ->check(real(0, most_stall_seconds));
  app.add_option("--stall-abort", o.stall.abort_seconds,
                 "seconds of waiting in a step until the job is ended; 0: never")
      ->check(real(0, most_stall_seconds));
  app.add_option("--emulate", texts.emulate,
                 "slow ranks down: a speed from 0.001 to 1 for each rank, such as 0.4,0.2,1");
  app.add_option("--inject", texts.inject, "a delay: rank:phase:ms[:from-to]");
}

void add_optimizer_options(CLI::App& app, Options& o) {
  app.add_option("--optimizer", o.optimizer.name)->check(one_of(std::span(optimizers)));
  app.add_option("--lr", o.schedule.learning_rate, "learning rate at its highest")
      ->check(real(0, HUGE_VAL));
  app.add_option("--momentum", o.optimizer.momentum, "of sgd and lars")->check(real(0, 1));
  app.add_flag("--nesterov", o.optimizer.nesterov, "Nesterov's form of sgd's momentum");
  app.add_option("--weight-decay", o.optimizer.weight_decay)->check(real(0, HUGE_VAL));
  app.add_option("--trust", o.optimizer.trust,
                 "of lars: a tensor's step relative to its norm, at a learning rate of 1")
      ->check(real(0, HUGE_VAL));
  app.add_option("--schedule", o.schedule.name, "of the learning rate")
      ->check(one_of(std::span(schedules)));
  app.add_option("--warmup", o.schedule.warmup_steps, "steps of linear warm-up")
      ->check(whole(0, largest_steps));
  app.add_option("--clip", o.clip, "largest norm of the averaged gradient; 0: any")
      ->check(real(0, HUGE_VAL));
}

void add_outputs(CLI::App& app, Options& o) {
  app.add_option("--summary", o.summary, "JSON of the whole run, written at its end");
  app.add_option("--log", o.log, "JSON lines, one a step");
  app.add_option("--timeline", o.timeline, "trace for chrome://tracing or Perfetto");
  app.add_flag("--profile", o.profile, "a table of rank 0's time by layer, at the end");
}

void refuse_steps_too_large(const Options& o) {
  if (o.accumulate > largest_batch / o.global_batch)
    throw UsageError(
        fmt::format("--global-batch {} times --accumulate {} is more than 2^31; lower one",
                    o.global_batch, o.accumulate));
}

// Devices, such as /dev/stdout, may take more than one.
void refuse_one_file_for_two(const Options& o) {
  const std::pair<const char*, const std::string&> outputs[] = {
      {"--summary", o.summary}, {"--log", o.log}, {"--timeline", o.timeline}};
  for (const auto& [flag, path] : outputs)
    for (const auto& [other_flag, other_path] : outputs)
      if (flag != other_flag && !path.empty() && path == other_path && !path.starts_with("/dev/"))
        throw UsageError(
            fmt::format("{} and {} are both {}; name a file for each", flag, other_flag, path));
}

void refuse_flags_to_come(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (is_one_of(flags_to_come, flag))
      throw UsageError(flag + " is not built yet; run without it");
  }
}

}  // namespace

Options parse_options(int argc, char** argv, const Program& program, Options defaults) {
  refuse_flags_to_come(argc, argv);
  Options options = std::move(defaults);
  Texts texts;
  CLI::App app(program.what, program.name);
  app.option_defaults()->always_capture_default();
  program.add_options(app);
  add_job_options(app, options, texts);
  add_balance_options(app, options, texts);
  add_optimizer_options(app, options);
  add_outputs(app, options);
  parse_command_line(app, argc, argv);
  refuse_one_file_for_two(options);
  refuse_steps_too_large(options);
  options.evaluate = texts.eval == "on";
  if (app.count("--emulate") > 0) options.emulate = parse_emulate(texts.emulate);
  for (const std::string& spec : texts.inject) options.injections.push_back(parse_injection(spec));
  std::vector<std::string_view> local = program.local_options;
  local.emplace_back("--threads");
  options.given = given_options(app, local);
  return options;
}

void add_dtype_option(CLI::App& app, std::string& dtype) {
  static constexpr const char* names[] = {"f32", "bf16"};
  app.add_option("--dtype", dtype, "what layers compute in; master weights are f32")
      ->check(one_of(std::span(names)));
}

kernels::Dtype dtype_of(const std::string& dtype) {
  return dtype == "bf16" ? kernels::Dtype::bf16 : kernels::Dtype::f32;
}

void check_against_world(const Options& options, int ranks) {
  if (!options.emulate.empty() && static_cast<int>(options.emulate.size()) != ranks)
    throw UsageError(fmt::format("--emulate has {} speeds, the job has {} ranks; give one a rank",
                                 options.emulate.size(), ranks));
  for (const Injection& injection : options.injections)
    if (injection.rank >= ranks)
      throw UsageError(fmt::format("--inject names rank {}, the job has {} ranks, from 0 to {}",
                                   injection.rank, ranks, ranks - 1));
}

}  // namespace evenstep::train
