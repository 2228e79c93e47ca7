#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/job.h"

namespace evenstep::bench {
namespace {

struct Way {
  Overlapping overlapping;
  std::unique_ptr<Job> job;
  std::vector<double> steps = {};
  std::vector<double> waits = {};
  std::vector<double> backwards = {};

  bool is_off() const { return job->session().overlap() == Overlap::off; }
  /// Of a share, that its last chunk may be.
  double last_part() const {
    return overlapping.last_parts[static_cast<std::size_t>(job->session().backward_way())];
  }
};

std::vector<const char*> overlaps_of(const Communicator& communicator) {
  if (communicator.progress_thread() == ProgressThread::no) return {"tests"};
  return {"tests", "thread"};
}

// All settings that auto chooses from, off first and by sizes of the last chunk, and auto itself.
std::vector<Way> make_ways(Communicator& communicator, const Options& options, Work& work) {
  const std::vector<double> parts = last_parts(work, options);
  std::vector<Way> ways;
  const auto add = [&](const Overlapping& overlapping) {
    Way way{overlapping, std::make_unique<Job>(communicator, options, work, "off", overlapping)};
    const int buckets = way.job->session().buckets();
    const bool pinned = overlapping.bucket_mb > 0;
    const bool as_before = pinned && ways.back().overlapping.overlap == overlapping.overlap &&
                           ways.back().last_part() == way.last_part() &&
                           ways.back().job->session().buckets() == buckets;
    if (!as_before && (!pinned || buckets > 1)) ways.push_back(std::move(way));
  };
  for (double part : parts) add({"off", {part}});
  for (const char* overlap : overlaps_of(communicator))
    for (double part : parts)
      for (double bucket_mb : options.bucket_mb) add({overlap, {part}, bucket_mb});
  add({"auto", parts});
  return ways;
}

// Of the ranks: the time of the one that waits least is the communication's own.
double least(Communicator& communicator, double mine) {
  double least = mine;
  for (const std::string& theirs : communicator.gather(fmt::format("{:.9e}", mine)))
    least = std::min(least, std::stod(theirs));
  return least;
}

// Samples of the last chunk of an even share.
double last_chunk(const Way& way, const Work& work, const Options& options) {
  return std::max<double>(work.network->menu().usual(),
                          way.last_part() * static_cast<double>(options.batch));
}

// What is hidden of the communication is told against off with the same chunks; what can be, is the
// communication or the last chunk's backward, whichever is shorter.
Json hidden_by(const Way& way, const std::vector<Way>& all, const Work& work,
               const Options& options) {
  if (way.is_off()) return {};
  const Way& off = *std::ranges::find(all, way.last_part(), &Way::last_part);
  const double backward =
      median(off.backwards) * last_chunk(way, work, options) / static_cast<double>(options.batch);
  return (median(off.steps) - median(way.steps)) / std::min(median(off.waits), backward);
}

Json result_of(const Way& way, const std::vector<Way>& all, const Work& work,
               const Options& options) {
  std::vector<double> of_off;
  for (std::size_t round = 0; round < way.steps.size(); ++round)
    of_off.push_back(way.steps[round] / all[0].steps[round]);
  return {{"overlap", way.overlapping.overlap},
          {"runs", name(way.job->session().overlap())},
          {"last_chunk", last_chunk(way, work, options)},
          {"buckets", way.job->session().buckets()},
          {"step_seconds", median(way.steps)},
          {"wait_seconds", median(way.waits)},
          {"backward_seconds", median(way.backwards)},
          {"of_off", median(of_off)},
          {"hidden", hidden_by(way, all, work, options)}};
}

void print_ways(const Json& ways, const Options& options) {
  fmt::print("{}, {} samples a rank\n{:>8} {:>8} {:>11} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
             options.model, options.batch, "overlap", "runs", "last chunk", "buckets", "step ms",
             "wait ms", "of off", "hidden");
  for (const Json& way : ways)
    fmt::print("{:>8} {:>8} {:>11} {:>8} {:>8.2f} {:>8.2f} {:>8.3f} {:>8}\n",
               std::string(way["overlap"]), std::string(way["runs"]), int(way["last_chunk"]),
               int(way["buckets"]), 1e3 * double(way["step_seconds"]),
               1e3 * double(way["wait_seconds"]), double(way["of_off"]),
               way["hidden"].is_null() ? "" : fmt::format("{:.2f}", double(way["hidden"])));
}

// What auto costs against off, once it has settled.
Json compare_auto(Communicator& communicator, const Options& options) {
  Work usual(communicator, options, 1);
  Work large(communicator, options, options.batch);
  const Overlapping automatic_ways = {"auto", last_parts(large, options)};
  std::vector<double> ratios;
  std::vector<std::string> settled;
  with_new_jobs(
      options.pairs,
      [&](int which) {
        if (which == 0) return std::make_unique<Job>(communicator, options, usual, "off");
        return std::make_unique<Job>(communicator, options, large, "off", automatic_ways);
      },
      [&](Job& off, Job& automatic, int pairs) {
        for (const Turn& turn : take_turns(off, automatic, pairs)) ratios.push_back(turn.ratio());
        settled.emplace_back(name(automatic.session().overlap()));
      });
  if (communicator.rank() == 0)
    fmt::print("auto settles on {}: {:+.2f} % of a step against off (median of {} pairs)\n",
               fmt::join(settled, ", "), 100 * (median(ratios) - 1), options.pairs);
  return {{"settled", settled}, {"overhead", median(ratios) - 1}, {"ratios", ratios}};
}

}  // namespace

Json measure_overlap(Communicator& communicator, const Options& options) {
  Work work(communicator, options, options.batch);
  std::vector<Way> ways = make_ways(communicator, options, work);
  for (Way& way : ways) way.job->settle();
  for (int pair = 0; pair < options.pairs; ++pair)
    for (Way& way : ways) {
      way.job->run(steps_a_turn);
      const Job::Means means = way.job->take_means();
      way.steps.push_back(means.step);
      way.waits.push_back(least(communicator, means.wait));
      way.backwards.push_back(means.backward);
    }
  Json results = {{"model", options.model}, {"ways", Json::array()}};
  for (const Way& way : ways) results["ways"].push_back(result_of(way, ways, work, options));
  if (communicator.rank() == 0) print_ways(results["ways"], options);
  ways.clear();
  results["auto"] = compare_auto(communicator, options);
  return results;
}

}  // namespace evenstep::bench
