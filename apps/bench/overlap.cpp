#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "bench/job.h"

namespace evenstep::bench {
namespace {

struct Way {
  std::string name;
  std::unique_ptr<Work> work;
  std::unique_ptr<Job> job;
  std::vector<double> steps;
  std::vector<double> waits;
  std::vector<double> backwards;
};

int whole_chunk(const Options& options) {
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(options.batch)));
}

// A share in one chunk leaves the most to overlap with: off is measured with both kinds of chunks.
std::vector<Way> make_ways(Communicator& communicator, const Options& options) {
  const int whole = whole_chunk(options);
  std::vector<Way> ways;
  const auto add = [&](const char* name, const char* overlap, int last_chunk) {
    auto work = std::make_unique<Work>(communicator, options, last_chunk);
    auto job = std::make_unique<Job>(communicator, options, *work, "off", overlap);
    ways.push_back({name, std::move(work), std::move(job), {}, {}, {}});
  };
  add("off", "off", 1);
  add("off, one chunk", "off", whole);
  add("tests, one chunk", "tests", whole);
  if (communicator.progress_thread() != ProgressThread::no)
    add("thread, one chunk", "thread", whole);
  return ways;
}

// Of the ranks: the time of the one that waits least is the communication's own.
double least(Communicator& communicator, double mine) {
  double least = mine;
  for (const std::string& theirs : communicator.gather(fmt::format("{:.9e}", mine)))
    least = std::min(least, std::stod(theirs));
  return least;
}

// What auto costs against off, once it has settled.
Json compare_auto(Communicator& communicator, const Options& options) {
  Work usual(communicator, options, 1);
  Work large(communicator, options, whole_chunk(options));
  std::vector<double> ratios;
  std::vector<std::string> settled;
  with_new_jobs(
      options.pairs,
      [&](int which) {
        Work& work = which == 0 ? usual : large;
        return std::make_unique<Job>(communicator, options, work, "off",
                                     which == 0 ? "off" : "auto");
      },
      [&](Job& off, Job& automatic, int pairs) {
        while (!automatic.session().overlap_settled()) automatic.run(1);
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
  std::vector<Way> ways = make_ways(communicator, options);
  for (Way& way : ways) {
    way.job->run(warm_up_steps);
    way.job->take_means();
  }
  for (int pair = 0; pair < options.pairs; ++pair)
    for (Way& way : ways) {
      way.job->run(steps_a_turn);
      const Job::Means means = way.job->take_means();
      way.steps.push_back(means.step);
      way.waits.push_back(least(communicator, means.wait));
      way.backwards.push_back(means.backward);
    }
  const bool speaks = communicator.rank() == 0;
  if (speaks)
    fmt::print("overlap, {}, {} samples a rank   step ms   wait ms   of off   hidden   buckets\n",
               options.model, options.batch);
  const Way& base = ways[1];
  const double can_hide = std::min(median(base.waits), median(base.backwards));
  Json results = {
      {"model", options.model}, {"can_hide_seconds", can_hide}, {"ways", Json::array()}};
  for (const Way& way : ways) {
    const double hidden = (median(base.steps) - median(way.steps)) / can_hide;
    const double of_off = median(way.steps) / median(ways[0].steps);
    const bool overlaps = way.job->session().overlap() != Overlap::off;
    results["ways"].push_back({{"name", way.name},
                               {"step_seconds", median(way.steps)},
                               {"wait_seconds", median(way.waits)},
                               {"backward_seconds", median(way.backwards)},
                               {"of_off", of_off},
                               {"hidden", overlaps ? Json(hidden) : Json()},
                               {"buckets", way.job->session().buckets()}});
    if (speaks)
      fmt::print("{:>32} {:>9.2f} {:>9.2f} {:>8.3f} {:>8} {:>9}\n", way.name,
                 1e3 * median(way.steps), 1e3 * median(way.waits), of_off,
                 overlaps ? fmt::format("{:.2f}", hidden) : "", way.job->session().buckets());
  }
  ways.clear();
  results["auto"] = compare_auto(communicator, options);
  return results;
}

}  // namespace evenstep::bench
