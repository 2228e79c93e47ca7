// What one rank tells all others in a step, and its exact encoding as floating point numbers.
//
// Each rank writes its own slot of the all-reduce's tail and zeros in all others, so that a plain
// SUM gathers the slots: x + 0 + ... + 0 is exact in every order and algorithm. A field is one or
// two whole "digits" of at most 24 bits, which fp32 holds exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lb/units.h"

namespace evenstep::lb {

/// Change it with every change of the fields below: ranks with another version refuse to start.
inline constexpr int record_version = 1;

/// Bits of Record::flags.
enum Flag : std::uint32_t {
  flag_not_finite = 1,      ///< this rank's loss or weight is not finite
  flag_stop_requested = 2,  ///< this rank was asked to stop
  flag_cold = 4,            ///< the step paid for a start-up; its time says nothing
  flag_leaving = 8,         ///< this rank is about to leave the job
  flag_stale = 16,          ///< of an earlier step; set by who reads it, never sent
};
inline constexpr int flag_bits = 4;  ///< that are sent

struct Record {
  std::uint32_t step = 0;            ///< number of the step, modulo 2^24
  std::uint32_t partition_hash = 0;  ///< of the partition in force, 24 bits
  std::uint32_t parameter_hash = 0;  ///< of one slice of the parameters, 24 bits
  std::uint32_t flags = 0;           ///< Flag bits
  Samples samples = 0;               ///< this rank's share of the step
  Nanoseconds own_ns = 0;            ///< from the last collective's exit to this one's entry
  Nanoseconds wait_ns = 0;           ///< inside the previous step's collective

  // What the rank foresees of itself; all zero: nothing.
  Nanoseconds fixed_ns = 0;       ///< cost of a step however small the share
  Picoseconds per_sample_ps = 0;  ///< cost of one more sample
  Nanoseconds floor_ns = 0;       ///< least cost of a share that is not empty

  Samples least = 0;                   ///< fewest samples the rank can take
  Samples most = largest_field;        ///< most samples the rank can take
  std::uint32_t cpu_available = 0;     ///< cores seen free for this rank, in 1/65536
  std::uint32_t memory_available = 0;  ///< MiB

  bool has(Flag flag) const { return (flags & flag) != 0; }
  /// Whether own_ns says something of the rank's speed.
  bool tells_speed() const {
    return !has(flag_stale) && !has(flag_cold) && samples > 0 && own_ns > 0;
  }
  bool operator==(const Record&) const = default;
};

/// Availability as a record carries it; 0 for what is not seen (below 0), clamped to a digit.
std::uint32_t encode_cores(double cores);
std::uint32_t encode_mebibytes(double mebibytes);
double cores_of(std::uint32_t cpu_available);

/// Numbers that one encoded record takes.
inline constexpr int record_digits = 4 + 2 * 8 + 2;

/// Writes `record` as record_digits whole numbers. Fields beyond their width are clamped to it.
template <typename Real>
void encode(const Record& record, std::span<Real> digits);

/// Reads what encode wrote; nothing if any number is not a whole digit from 0 to 2^24 - 1.
template <typename Real>
std::optional<Record> decode(std::span<const Real> digits);

}  // namespace evenstep::lb
