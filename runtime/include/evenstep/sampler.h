// The global shuffled order of an epoch, without a list of it.
#pragma once

#include <cstdint>

namespace evenstep {

/// A keyed bijection of [0, samples) for every epoch: position in the order to sample index. Any
/// position at once, O(1) memory, the same on every rank and machine (whole-number arithmetic), so
/// ranks that cut the order by their shares see every sample exactly once an epoch, whatever the
/// shares.
///
/// A Feistel network over the next power of four, walked until it lands below `samples` (format-
/// preserving encryption by cycle walking: Black and Rogaway, CT-RSA 2002). At most 4 rounds of
/// walk are expected.
class Sampler {
 public:
  /// `samples` from 1 to 2^62.
  Sampler(std::int64_t samples, std::uint64_t seed);

  std::int64_t samples() const { return samples_; }
  /// The sample at `position` (0 <= position < samples) of `epoch`'s order.
  std::int64_t at(std::int64_t epoch, std::int64_t position) const;

 private:
  std::int64_t samples_;
  std::uint64_t seed_;
  int half_bits_;
};

}  // namespace evenstep
