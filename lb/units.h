// The whole numbers the balancer reckons in. Times are integers, so that every rank computes the
// same partition on any processor.
#pragma once

#include <cstdint>

namespace evenstep::lb {

using Samples = std::int64_t;  ///< samples of a batch, or rows, cells, tokens: what is shared out
using Nanoseconds = std::int64_t;  ///< durations up to an hour fit with room to multiply
using Picoseconds = std::int64_t;  ///< cost of one sample

/// Largest value a record can carry in two digits of 24 bits: 78 hours in nanoseconds.
inline constexpr std::int64_t largest_field = (std::int64_t{1} << 48) - 1;

}  // namespace evenstep::lb
