// The replicated state machine that ties the parts together. Every rank holds one, feeds it the
// same records and gets the same partition: a pure function of what it was given, with no clock, no
// communication and no rank of its own.
#pragma once

#include <memory>
#include <string>

#include "lb/policy.h"
#include "lb/sizer.h"

namespace evenstep::lb {

struct BalancerOptions {
  std::string sizer = "even";
  Samples batch = 0;    ///< the global batch, above 0
  Samples granule = 1;  ///< above 0
  int lag = 0;          ///< 0: records of step k steer step k + 1; 1: step k + 2
  SizeTable table;      ///< the same on all ranks
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
  Decision observe(std::span<const Record> records);

  /// How often the partition changed.
  int resizes() const { return resizes_; }

 private:
  void observe_speed(CostModel& model, const Record& record);
  Decision decide_by_policy(bool proposed);
  void move_to(std::span<const Samples> partition);
  Nanoseconds foreseen_finish(std::span<const Samples> partition) const;
  View view(std::span<const Record> records) const;

  BalancerOptions options_;
  std::unique_ptr<Sizer> sizer_;
  std::vector<CostModel> models_;
  std::vector<Samples> partition_;
  std::vector<Samples> proposal_;
  Policy policy_;
  int resizes_ = 0;
};

}  // namespace evenstep::lb
