// The tail of a step's all-reduce: which numbers travel behind the gradients, and where.
//
//     [ plain sums: weight, loss, the user's metrics ][ slot of rank 0 ] ... [ slot of rank N-1 ]
//
// It is always there and always the same size, balancing on or off, since it moves the chunk edges
// of ring algorithms and with them the gradients' last bits. It takes no part in scaling, clipping
// or averaging.
#pragma once

#include <cstddef>
#include <span>

#include "lb/record.h"

namespace evenstep::lb {

class Tail {
 public:
  /// `sums`: how many plain sums travel, the same on all ranks.
  Tail(int ranks, int sums) : ranks_(ranks), sums_(sums) {}

  int ranks() const { return ranks_; }
  /// Length in elements.
  std::size_t size() const {
    return static_cast<std::size_t>(sums_) + static_cast<std::size_t>(ranks_) * record_digits;
  }

  /// Before the all-reduce: this rank's sums and record, zeros in the other slots.
  template <typename Real>
  void write(std::span<Real> tail, int rank, const Record& record,
             std::span<const double> sums) const;

  /// After the all-reduce: the sums over all ranks, and every rank's record. Returns the lowest
  /// rank whose slot cannot be read, or -1.
  template <typename Real>
  int read(std::span<const Real> tail, std::span<double> sums, std::span<Record> records) const;

 private:
  int ranks_;
  int sums_;
};

}  // namespace evenstep::lb
