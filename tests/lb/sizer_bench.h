// Drives one sizer, without a balancer around it, on times that the test gives.
#pragma once

#include <memory>
#include <vector>

#include "lb/sizers/sizers.h"

namespace evenstep::lb {

class SizerBench {
 public:
  SizerBench(std::unique_ptr<Sizer> sizer, std::vector<Samples> shares, Samples granule = 1)
      : records(shares.size()),
        sizer_(std::move(sizer)),
        models_(shares.size()),
        shares_(std::move(shares)),
        granule_(granule) {
    for (const Samples share : shares_) batch_ += share;
  }

  /// One step at the partition in force with these own times. Whether the partition changed.
  bool step(const std::vector<Nanoseconds>& own_ns) {
    for (std::size_t r = 0; r < records.size(); ++r) {
      records[r].samples = shares_[r];
      records[r].own_ns = own_ns[r];
    }
    return take_records();
  }
  /// Steps until the partition changes; 0: it did not within `most`.
  int steps_until_change(const std::vector<Nanoseconds>& own_ns, int most = 1000) {
    for (int i = 1; i <= most; ++i)
      if (step(own_ns)) return i;
    return 0;
  }
  /// One step with `records` as they are.
  bool take_records() {
    const std::vector<Samples> before = shares_;
    std::vector<Samples> proposal(shares_.size());
    if (sizer_->propose(view(), proposal)) shares_ = proposal;
    return shares_ != before;
  }
  bool start() { return sizer_->propose_first(view(), shares_); }

  const std::vector<Samples>& shares() const { return shares_; }

  std::vector<Record> records;

 private:
  View view() const { return {records, models_, pool_, batch_, granule_, &table_}; }

  std::unique_ptr<Sizer> sizer_;
  std::vector<RankModel> models_;
  Pool pool_{16};
  SizeTable table_;
  std::vector<Samples> shares_;
  Samples batch_ = 0;
  Samples granule_;
};

}  // namespace evenstep::lb
