#include "common/course_options.h"

#include <CLI/CLI.hpp>

#include "common/trace_file.h"
#include "evenstep/error.h"
#include "lb/predictor.h"

namespace evenstep {
namespace {

constexpr std::int64_t usual_steps = 2000;
constexpr std::int64_t usual_batch_per_rank = 128;
constexpr std::int64_t largest_batch = std::int64_t{1} << 31;
constexpr std::int64_t most_steps = 1'000'000'000;
constexpr double most_noise = 10;
constexpr double most_cold = 1e6;

std::vector<std::string_view> kind_names() {
  std::vector<std::string_view> names;
  for (const lb::TraceKind& kind : lb::trace_kinds()) names.push_back(kind.name);
  return names;
}

std::string describe_kinds() {
  std::string text = "a kind of trace:";
  for (const lb::TraceKind& kind : lb::trace_kinds())
    text += fmt::format("\n{} ({})", kind.name, kind.what);
  return text;
}

Source open_file(const CourseOptions& options) {
  auto trace = std::make_unique<TraceFile>(options.trace);
  if (options.ranks != 0 && options.ranks != trace->ranks())
    throw UsageError(fmt::format("--trace {} has {} ranks, not {}", options.trace, trace->ranks(),
                                 options.ranks));
  // Rows at step 0 alone: nothing ever changes, and one step would say little.
  const std::int64_t steps = trace->last_step() == 0 ? usual_steps : trace->last_step() + 1;
  return {options.trace, std::move(trace), {}, steps};
}

Source generate(const CourseOptions& options) {
  if (options.ranks == 0) throw UsageError("--generate needs --ranks; give their number");
  Source source{options.generate, nullptr, {}, usual_steps};
  for (const lb::TraceKind& kind : lb::trace_kinds())
    if (kind.name == options.generate) source.noise = kind.noise;
  source.trace = lb::make_trace(options.generate, static_cast<int>(options.ranks), options.seed);
  return source;
}

}  // namespace

void add_course_options(CLI::App& app, CourseOptions& o) {
  app.add_option("--trace", o.trace, "CSV of costs by step and rank");
  app.add_option("--generate", o.generate, describe_kinds())->check(one_of(kind_names()));
  app.add_option("--ranks", o.ranks, "of --generate")->check(whole(1, most_ranks));
  app.add_option("--global-batch", o.global_batch,
                 "samples of a step, over all ranks; default: 128 a rank, or the log's")
      ->check(whole(1, largest_batch));
  app.add_option("--granule", o.granule, "shares are multiples of it")
      ->check(whole(1, largest_batch));
  app.add_option("--steps", o.steps, "default: as many as the trace or log has; else 2000")
      ->check(whole(1, most_steps));
  app.add_option(
         "--noise", o.noise,
         "sigma of log-normal noise on all times; default: 0.03, or the kind's or log's own")
      ->check(real(0, most_noise));
  app.add_option("--seed", o.seed, "of generated traces and noise")->check(whole(0, INT64_MAX));
  app.add_option("--predictor", o.predictor, "what lbbsp-cpu forecasts speeds with; default: narx")
      ->check(one_of(lb::predictor_names()));
  app.add_option("--cold", o.cold,
                 "the first step at a size new to a rank takes so many times longer in addition")
      ->check(real(0, most_cold));
  app.add_option("--lag", o.lag, "0: news of a step steer the next one; 1: the one after it")
      ->check(whole(0, 1));
  app.add_option("--summary", o.summary, "JSON of the results");
}

Source open_source(const CourseOptions& options) {
  return options.trace.empty() ? generate(options) : open_file(options);
}

lb::SimulationOptions settle(const CourseOptions& options, const Source& source) {
  lb::SimulationOptions settled;
  settled.batch = options.global_batch != 0 ? options.global_batch
                  : source.batch != 0       ? source.batch
                                            : usual_batch_per_rank * source.trace->ranks();
  settled.granule = options.granule;
  settled.steps = options.steps != 0 ? options.steps : source.steps;
  settled.noise = source.noise;
  if (options.noise >= 0) settled.noise.sigma = options.noise;
  settled.seed = options.seed;
  settled.predictor = options.predictor;
  settled.cold = options.cold;
  settled.lag = options.lag;
  check_granule(settled.batch, settled.granule);
  return settled;
}

void check_granule(std::int64_t global_batch, std::int64_t granule) {
  if (global_batch < granule)
    throw UsageError(
        fmt::format("--global-batch {} is below --granule {}; raise the first or lower the second",
                    global_batch, granule));
}

}  // namespace evenstep
