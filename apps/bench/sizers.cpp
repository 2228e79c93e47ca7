#include <fmt/format.h>

#include "bench/job.h"

namespace evenstep::bench {
namespace {

struct Turns {
  std::string balance;
  std::unique_ptr<Job> job;
  std::vector<double> seconds = {};  // by round
};

// Off's two sessions are the first and the last.
Json result_of(const Turns& turns, const std::vector<Turns>& all) {
  std::vector<double> over_off;
  for (std::size_t round = 0; round < turns.seconds.size(); ++round) {
    const double off = (all.front().seconds[round] + all.back().seconds[round]) / 2;
    over_off.push_back(off / turns.seconds[round]);
  }
  return {{"balance", turns.balance},
          {"over_off", median(over_off)},
          {"seconds", turns.seconds},
          {"resizes", turns.job->session().resizes()},
          {"overlap", name(turns.job->session().overlap())},
          {"partition", turns.job->session().partition()}};
}

}  // namespace

// Sessions live through all rounds, so that each sizer sees one long run of its own, and what else
// the machine does meets all alike. Off has two of them: with equal ranks and shares, the session
// that was made first was 3 % faster than all others, so it matters where one's memory lies.
Json measure_sizers(Communicator& communicator, const Options& options) {
  Work work(communicator, options, options.overlap == "off" ? 1 : 2 * options.batch);
  const Overlapping overlapping = {options.overlap, last_parts(work, options)};
  std::vector<Turns> all;
  std::vector<std::string> balances = options.balances;
  balances.push_back(balances.front());
  all.reserve(balances.size());
  for (const std::string& balance : balances)
    all.push_back(
        {balance, std::make_unique<Job>(communicator, options, work, balance, overlapping)});
  all[0].job->settle();
  const int steps = steps_in(communicator, options.block_seconds, *all[0].job);
  std::vector<Job*> jobs;
  for (Turns& turns : all) {
    turns.job->settle();
    turns.job->run(steps);
    jobs.push_back(turns.job.get());
  }
  const auto seconds = take_rounds(jobs, steps, options.pairs);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].seconds = seconds[i];
  Json results = Json::array();
  if (communicator.rank() == 0)
    fmt::print("{:>18} {:>9} {:>9}  partition   ({} rounds of {} steps)\n", "sizer", "over off",
               "re-sizes", options.pairs, steps);
  for (const Turns& turns : all) {
    results.push_back(result_of(turns, all));
    const Json& row = results.back();
    if (communicator.rank() == 0)
      fmt::print("{:>18} {:>9.3f} {:>9}  {}\n", turns.balance, double(row["over_off"]),
                 int(row["resizes"]), row["partition"].dump());
  }
  return {{"ranks", communicator.size()},
          {"model", options.model},
          {"global_batch", options.batch * communicator.size()},
          {"steps", steps},
          {"rounds", options.pairs},
          {"sizers", results}};
}

}  // namespace evenstep::bench
