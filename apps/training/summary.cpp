#include "training/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <bit>
#include <cstdio>

#include "evenstep/mpi.h"
#include "evenstep/version.h"

namespace evenstep::train {
namespace {

using nlohmann::ordered_json;

// FNV-1a over the bytes of the values, low byte first.
std::string parameter_hash(std::span<const float> parameters) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (float value : parameters) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8)
      hash = (hash ^ (bits >> shift & 0xff)) * 0x100000001b3U;
  }
  return fmt::format("{:016x}", hash);
}

// Largest resident size of this process so far.
std::int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

ordered_json my_means(const Finished& run) {
  const auto rank = static_cast<std::size_t>(run.communicator.rank());
  ordered_json mine = {{"rank", rank},
                       {"host", run.communicator.host()},
                       {"share", run.statistics.mean_share()[rank]},
                       {"own_seconds", run.statistics.own_seconds()[rank]}};
  for (Phase phase : {Phase::load, Phase::forward, Phase::backward, Phase::update})
    mine[name(phase)] = run.statistics.phase_seconds(phase);
  mine["prefetch"] = run.prefetches;
  mine["wait"] = run.statistics.wait_seconds();
  mine["parameter_hash"] = parameter_hash(run.parameters);
  mine["peak_bytes"] = peak_bytes();
  return mine;
}

void refuse_different_parameters(const std::vector<ordered_json>& ranks) {
  for (const ordered_json& rank : ranks)
    if (rank["parameter_hash"] != ranks[0]["parameter_hash"])
      throw AgreedError(fmt::format(
          "rank {} on {} ended with parameters {}, rank 0 with {}; this is a defect",
          rank["rank"].dump(), std::string(rank["host"]), std::string(rank["parameter_hash"]),
          std::string(ranks[0]["parameter_hash"])));
}

double wait_fraction(const std::vector<ordered_json>& ranks) {
  double own = 0;
  double wait = 0;
  for (const ordered_json& rank : ranks) {
    own += rank["own_seconds"].get<double>();
    wait += rank["wait"].get<double>();
  }
  return own + wait > 0 ? wait / (own + wait) : 0;
}

}  // namespace

Summary gather_summary(const Finished& run) {
  const ordered_json mine = {{"means", my_means(run)},
                             {"last_wait_ns", run.session.last_wait_ns()}};
  Summary summary;
  for (const std::string& text : run.communicator.gather(mine.dump())) {
    const auto rank = ordered_json::parse(text);
    summary.ranks.push_back(rank["means"]);
    summary.last_wait_ns.push_back(rank["last_wait_ns"]);
  }
  refuse_different_parameters(summary.ranks);
  const Statistics& statistics = run.statistics;
  summary.json = {
      {"world_size", run.communicator.size()},
      {"global_batch", run.options.step_batch()},
      {"steps", statistics.steps()},
      {"samples", statistics.samples()},
      {"wall_seconds", run.wall_seconds},
      {"samples_per_second", statistics.samples_per_second()},
      {"own_seconds", statistics.own_seconds()},
      {"load_balance", statistics.load_balance()},
      {"wait_fraction", wait_fraction(summary.ranks)},
      {"resizes", run.session.resizes()},
      {"collectives_per_step", run.collectives_per_step},
      {"skipped_steps", run.skipped_steps},
      {"partition", run.session.partition()},
      {"final_loss", run.final_loss},
      {"test_loss", run.test_accuracy < 0 ? ordered_json() : ordered_json(run.test_loss)},
      {"test_accuracy", run.test_accuracy < 0 ? ordered_json() : ordered_json(run.test_accuracy)},
      {"parameters", run.trained},
      {"parameter_hash", summary.ranks[0]["parameter_hash"]},
      {"balance", run.options.balance},
      {"balance_seconds", 1e-9 * static_cast<double>(run.session.balance_ns())},
      {"model", run.workload.name()},
      {"wait", name(wait_of(run.communicator))},
      {"overlap", name(run.session.overlap())},
      {"wire", run.options.wire},
      {"overlap_settled", run.session.overlap_settled()},
      {"buckets", run.session.buckets()},
      {"last_chunk", run.last_chunk},
      {"threads", run.options.threads},
      {"version", version()}};
  return summary;
}

ordered_json to_json(const Summary& summary) {
  ordered_json json = summary.json;
  json["ranks"] = summary.ranks;
  return json;
}

void print_start(const Session& session, const Communicator& communicator, const Options& options,
                 Workload& workload) {
  std::vector<std::string> hosts;
  for (const std::string& host : session.hosts())
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  fmt::print(
      "evenstep {}: {} {} on {}, {} {} with {} parameters ({:.3g} GFLOP forward a sample), global "
      "batch {}, "
      "balance {}, wait {}, overlap {}, threads {}\n",
      version(), communicator.size(), communicator.size() == 1 ? "rank" : "ranks",
      hosts.size() <= 4 ? fmt::format("{}", fmt::join(hosts, ", "))
                        : fmt::format("{} hosts", hosts.size()),
      workload.name(), workload.dtype(), workload.model().trained_count(),
      1e-9 * static_cast<double>(workload.model().forward_flops()), options.step_batch(),
      options.balance, name(wait_of(communicator)),
      session.overlap_settled() ? name(session.overlap()) : options.overlap.c_str(),
      options.threads);
  std::fflush(stdout);
}

void print_overlap(std::int64_t step, const Session& session, int last_chunk) {
  fmt::print("step {}: overlap {}, buckets {}", step + 1, name(session.overlap()),
             session.buckets());
  fmt::print(", last chunk {}: {:.3f} of the time of a step\n", last_chunk,
             session.overlap_ratio());
  std::fflush(stdout);
}

void print_evaluation(std::int64_t step, double loss, double test_loss, double accuracy,
                      const Statistics& statistics) {
  fmt::print(
      "step {}: loss {:.4f}, test loss {:.4f}, test accuracy {:.4f}, {:.0f} samples/s, "
      "load balance {:.2f}\n",
      step + 1, loss, test_loss, accuracy, statistics.samples_per_second(),
      statistics.load_balance());
  std::fflush(stdout);
}

void print_table(const Summary& summary, const std::string& unit) {
  const auto& run = summary.json;
  fmt::print("\n{:>5} {:<16} {:>8} {:>9} {:>8} {:>8} {:>9} {:>8} {:>8}\n", "rank", "host", "share",
             "own ms", "load", "forward", "backward", "update", "wait");
  for (const auto& rank : summary.ranks) {
    const auto ms = [&](const char* field) { return 1e3 * rank[field].get<double>(); };
    fmt::print("{:>5} {:<16.16} {:>8.1f} {:>9.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>8.2f} {:>8.2f}\n",
               rank["rank"].get<int>(), rank["host"].get<std::string>(),
               rank["share"].get<double>(), ms("own_seconds"), ms("load"), ms("forward"),
               ms("backward"), ms("update"), ms("wait"));
  }
  fmt::print("\nloss {:.4f}{}", run["final_loss"].get<double>(), unit);
  if (!run["test_loss"].is_null())
    fmt::print(", test loss {:.4f}, test accuracy {:.4f}", run["test_loss"].get<double>(),
               run["test_accuracy"].get<double>());
  fmt::print(
      "\n{} steps, {} samples in {:.1f} s: {:.0f} samples/s, load balance {:.3f}, "
      "{} re-sizes, last partition {}\n",
      run["steps"].get<std::int64_t>(), run["samples"].get<std::int64_t>(),
      run["wall_seconds"].get<double>(), run["samples_per_second"].get<double>(),
      run["load_balance"].get<double>(), run["resizes"].get<int>(), run["partition"].dump());
}

}  // namespace evenstep::train
