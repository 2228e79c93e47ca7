#include <fmt/format.h>

#include <optional>
#include <random>

#include "bench/bench.h"
#include "evenstep/session.h"
#include "lb/partition.h"
#include "lb/tail.h"

namespace evenstep::bench {
namespace {

constexpr std::int64_t samples_a_rank = 64;
constexpr double ns_a_sample = 1e6;
constexpr double noise = 0.03;
constexpr int steps_in_process = 60;
constexpr int steps_of_job = 100;
constexpr int most_slots = 1024;

// This process is rank 0 of a job whose other ranks only write their tails.
class VirtualJob {
 public:
  VirtualJob(int ranks, const char* form)
      : tail_(lb::tail_form(form, ranks), ranks, 2),
        known_(static_cast<std::size_t>(ranks)),
        sum_(tail_.size()),
        mine_(tail_.size()) {
    BalanceOptions options;
    options.global_batch = samples_a_rank * ranks;
    options.tail = form;
    options.clock = &clock_;
    balance_.emplace(0, ranks, options);
  }

  struct Cost {
    double write = 0;
    double read = 0;
  };
  Cost step() {
    const Share share = balance_->begin_step();
    sum_others(share.step);
    clock_.advance_ns(own_ns(share.count));
    Cost cost;
    cost.write = seconds_of([&] {
      balance_->write(std::span<float>(mine_), {.weight = static_cast<double>(share.count)});
    });
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += mine_[i];
    std::vector<double> sums(2);
    tail_.read<float>(sum_, sums, known_);
    cost.read = seconds_of([&] { balance_->read(std::span<const float>(sum_)); });
    return cost;
  }
  std::size_t elements() const { return tail_.size(); }

 private:
  std::int64_t own_ns(std::int64_t samples) {
    return static_cast<std::int64_t>(ns_a_sample * static_cast<double>(samples) *
                                     scatter_(random_));
  }
  void sum_others(std::int64_t step) {
    std::ranges::fill(sum_, 0.0F);
    const auto shares = balance_->partition();
    lb::Record record;
    record.step = static_cast<std::uint32_t>(step);
    record.partition_hash = lb::partition_hash(shares);
    const double sums[2] = {};
    for (std::size_t r = 1; r < known_.size(); ++r) {
      record.samples = shares[r];
      record.own_ns = own_ns(shares[r]);
      tail_.write<float>(mine_, static_cast<int>(r), record, false, sums);
      for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += mine_[i];
    }
  }

  lb::Tail tail_;
  std::vector<lb::Record> known_;
  std::vector<float> sum_;
  std::vector<float> mine_;
  ManualClock clock_;
  std::optional<Balance> balance_;
  std::mt19937_64 random_{1};
  std::lognormal_distribution<double> scatter_{0, noise};
};

Json measure_in_process(int ranks, const char* form) {
  VirtualJob job(ranks, form);
  std::vector<double> write;
  std::vector<double> read;
  for (int step = 0; step < steps_in_process; ++step) {
    const VirtualJob::Cost cost = job.step();
    write.push_back(cost.write);
    read.push_back(cost.read);
  }
  Json result = {{"ranks", ranks},
                 {"tail", form},
                 {"bytes", 4 * job.elements()},
                 {"write_seconds", median(write)},
                 {"read_and_decide_seconds", median(read)}};
  fmt::print("{:>6} ranks, {:<8} {:>9} bytes: write {:>8.1f} us, read and decide {:>8.1f} us\n",
             ranks, form, 4 * job.elements(), 1e6 * median(write), 1e6 * median(read));
  return result;
}

// Medians of a step's all-reduce without a tail, and of whole end_steps with either.
Json measure_in_job(Communicator& communicator, const Options& options) {
  std::vector<float> plain(static_cast<std::size_t>(options.gradients));
  std::vector<std::unique_ptr<Session>> sessions;
  for (const char* form : {"slots", "rotating"}) {
    SessionOptions session;
    session.global_batch = samples_a_rank * communicator.size();
    session.gradients = options.gradients;
    session.tail = form;
    sessions.push_back(std::make_unique<Session>(communicator, session));
  }
  std::vector<std::vector<double>> times(3);
  for (int step = 0; step < steps_of_job; ++step) {
    times[0].push_back(seconds_of([&] { communicator.sum(plain); }));
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      const Share share = sessions[i]->begin_step();
      times[i + 1].push_back(
          seconds_of([&] { sessions[i]->end_step({.weight = static_cast<double>(share.count)}); }));
    }
  }
  const double alone = median(times[0]);
  if (communicator.rank() == 0)
    fmt::print(
        "{} ranks of this job, {} gradients: all-reduce {:.1f} us; with the tail, averaging "
        "and the decision: slots {:.1f} us, rotating {:.1f} us\n",
        communicator.size(), options.gradients, 1e6 * alone, 1e6 * median(times[1]),
        1e6 * median(times[2]));
  return {{"ranks", communicator.size()},
          {"gradients", options.gradients},
          {"all_reduce_seconds", alone},
          {"end_step_seconds_slots", median(times[1])},
          {"end_step_seconds_rotating", median(times[2])}};
}

}  // namespace

Json measure_tail(Communicator& communicator, const Options& options) {
  Json results = {{"job", measure_in_job(communicator, options)}, {"in_process", Json::array()}};
  if (communicator.rank() != 0) return results;
  for (const int ranks : {2, 4, 8, 16, 32, 64, 256, 1024, 4096, 10'000})
    for (const char* form : {"slots", "rotating"})
      if (ranks <= most_slots || std::string_view(form) == "rotating")
        results["in_process"].push_back(measure_in_process(ranks, form));
  return results;
}

}  // namespace evenstep::bench
