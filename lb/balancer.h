// The replicated state machine that ties the parts together. Every rank holds
// one, feeds it the same records and gets the same partition: a pure function
// of what it was given, with no clock, no communication and no rank of its own.
#pragma once

#include <memory>
#include <string>

#include "lb/policy.h"
#include "lb/sizer.h"
#include "lb/warm_sizes.h"

namespace evenstep::lb {

struct BalancerOptions {
  std::string sizer = "even";
  std::string predictor = "narx";  ///< of `lbbsp-cpu`
  Samples batch = 0;               ///< the global batch, above 0
  Samples granule = 1;             ///< above 0
  int lag = 0;                     ///< 0: records of step k steer step k + 1; 1: step k + 2
  SizeTable table;                 ///< the same on all ranks
};

class Balancer {
 public:
  /// `start`: one record a rank, exchanged before the first step; limits and forecasts count.
  /// Throws std::invalid_argument or InfeasiblePartition, with the same text on all ranks.
  Balancer(const BalancerOptions& options, std::span<const Record> start);

  /// The shares of the next full batch, one a rank; they add up to options.batch.
  std::span<const Samples> partition() const { return partition_; }
  /// Cuts a batch of another size (the epoch's short last one) in the partition's proportions.
  void cut(Samples batch, std::span<Samples> shares) const;

  /// Takes all ranks' records of one step and moves on to the next partition. Allocates nothing.
  /// A stale record (flag_stale) has this step's samples, which all ranks know, and an older step's
  /// time, which is no observation. `much_to_come`: as News has it; the partition is kept.
  Decision observe(std::span<const Record> records, bool much_to_come = false);
  /// Whether what a rank has to say differs from what all ranks hold of it (`known`, its last
  /// record) by so much that it should not wait for its turn.
  bool is_news(std::size_t rank, const Record& mine, const Record& known) const;

  /// How often the partition changed.
  int resizes() const { return resizes_; }

 private:
  std::span<const Record> complete(std::span<const Record> records);
  void look_back_at_first_step(std::span<const Record> records);
  bool learn_price(std::span<const Record> records);
  double median_price();
  double foreseen_ns(std::size_t rank, Samples share) const;
  double fewest_readings() const;
  bool spare_new_sizes();
  void note_purchase();
  void observe_speed(std::size_t rank, const Record& record);
  bool is_echo(std::size_t rank, bool slower) const;
  Decision decide_by_policy(bool proposed);
  void move_to(std::span<const Samples> partition);
  Nanoseconds foreseen_finish(std::span<const Samples> partition) const;
  View view(std::span<const Record> records) const;

  BalancerOptions options_;
  std::unique_ptr<Sizer> sizer_;
  std::vector<RankModel> models_;
  Pool pool_;
  std::vector<Samples> partition_;
  // A rank's surprises in a row.
  struct Run {
    bool surprises = false;
    bool is_echo = false;  // they began as the echo of a re-size
  };
  std::vector<Run> runs_;
  std::vector<Samples> smallest_;  // shares before the re-sizes that are not long ago
  std::vector<Samples> largest_;
  std::vector<Samples> proposal_;
  std::vector<Record> completed_;
  std::vector<Samples> warm_proposal_;
  std::vector<Samples> before_purchase_;
  Policy policy_;
  WarmSizes warm_;
  std::vector<double> prices_;                  // scratch
  static constexpr double least_caution = 0.7;  // better to buy early than late
  double regret_ = 0;               // steps lost for want of new sizes since the last purchase
  double saved_ = 0;                // steps that it has saved
  double caution_ = least_caution;  // what a purchase must promise, in prices
  int purchases_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t steps_since_resize_ = 0;
  int resizes_ = 0;
};

}  // namespace evenstep::lb
