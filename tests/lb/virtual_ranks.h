// Virtual ranks that drive a real Balancer: each has a true cost, noise on top, and sends records.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "lb/balancer.h"
#include "tests/lb/random.h"

namespace evenstep::lb {

/// True time of a share on a rank at a step, before noise.
using TrueCost = std::function<double(int rank, Samples share, int step)>;
/// Changes the records of a step before they are sent (cold steps, spikes).
using Disturbance = std::function<void(int step, std::vector<Record>& records)>;

/// `seconds[r]` a sample.
inline TrueCost linear_cost(std::vector<double> seconds) {
  return [seconds](int rank, Samples share, int) {
    return 1e9 * seconds[static_cast<std::size_t>(rank)] * static_cast<double>(share);
  };
}

/// The shortest step there is at `step`, in ns: for true costs that never decrease in the share.
inline double oracle_ns(const TrueCost& cost, int ranks, Samples batch, int step) {
  std::vector<Samples> shares(static_cast<std::size_t>(ranks));
  double longest = 0;
  for (; batch > 0; --batch) {
    int earliest = 0;
    const auto next = [&](int r) { return cost(r, shares[static_cast<std::size_t>(r)] + 1, step); };
    for (int r = 1; r < ranks; ++r)
      if (next(r) < next(earliest)) earliest = r;
    longest = std::max(longest, next(earliest));
    ++shares[static_cast<std::size_t>(earliest)];
  }
  return longest;
}

class VirtualRanks {
 public:
  struct Setup {
    BalancerOptions options;
    int ranks = 4;
    TrueCost cost;
    double noise = 0;
    std::uint64_t seed = 1;
    Disturbance disturb = {};
    std::vector<Record> start = {};
  };

  struct Step {
    std::vector<Samples> shares;
    std::vector<Nanoseconds> own_ns;
    Decision after = Decision::keep;
    double longest_ns() const {
      return static_cast<double>(*std::max_element(own_ns.begin(), own_ns.end()));
    }
    /// Mean over the longest own time.
    double load_balance() const {
      double sum = 0;
      for (Nanoseconds own : own_ns) sum += static_cast<double>(own);
      return sum / static_cast<double>(own_ns.size()) / longest_ns();
    }
  };

  explicit VirtualRanks(Setup setup)
      : setup_(std::move(setup)),
        random_(setup_.seed),
        balancer_(setup_.options, setup_.start.empty()
                                      ? std::vector<Record>(static_cast<std::size_t>(setup_.ranks))
                                      : setup_.start) {}

  void step() {
    const int number = steps();
    Step now{{balancer_.partition().begin(), balancer_.partition().end()}, {}};
    std::vector<Record> records(now.shares.size());
    for (int r = 0; r < setup_.ranks; ++r) {
      Record& record = records[static_cast<std::size_t>(r)];
      record.step = static_cast<std::uint32_t>(number);
      record.samples = now.shares[static_cast<std::size_t>(r)];
      if (record.samples > 0)
        record.own_ns = static_cast<Nanoseconds>(setup_.cost(r, record.samples, number) *
                                                 random_.noise(setup_.noise));
    }
    if (setup_.disturb) setup_.disturb(number, records);
    for (const Record& record : records) now.own_ns.push_back(record.own_ns);
    on_the_way_.push_back(std::move(records));
    if (static_cast<int>(on_the_way_.size()) > setup_.options.lag) {
      now.after = balancer_.observe(on_the_way_.front());
      on_the_way_.pop_front();
    }
    history_.push_back(std::move(now));
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

  int steps() const { return static_cast<int>(history_.size()); }
  const Balancer& balancer() const { return balancer_; }
  const std::vector<Step>& history() const { return history_; }
  /// True length of a step at the partition in force, before noise, as it is at `step`.
  double true_ns(std::span<const Samples> shares, int step) const {
    double longest = 0;
    for (int r = 0; r < setup_.ranks; ++r)
      longest = std::max(longest, setup_.cost(r, shares[static_cast<std::size_t>(r)], step));
    return longest;
  }
  double true_ns(int step) const {
    return true_ns(history_[static_cast<std::size_t>(step)].shares, step);
  }
  /// Mean of the measured steps from `first` on.
  double mean_ns(int first = 0) const {
    double sum = 0;
    for (int i = first; i < steps(); ++i) sum += history_[static_cast<std::size_t>(i)].longest_ns();
    return sum / (steps() - first);
  }
  /// Re-sizes after the records of the steps from `first` on.
  int resizes(int first = 0) const {
    int count = 0;
    for (int i = first; i < steps(); ++i)
      count += history_[static_cast<std::size_t>(i)].after == Decision::keep ? 0 : 1;
    return count;
  }

 private:
  Setup setup_;
  Random random_;
  Balancer balancer_;
  std::deque<std::vector<Record>> on_the_way_;  // as many as the lag
  std::vector<Step> history_;
};

/// The same ranks, costs and noise under another sizer.
inline VirtualRanks::Setup with_sizer(VirtualRanks::Setup setup, const char* sizer) {
  setup.options.sizer = sizer;
  return setup;
}

}  // namespace evenstep::lb
