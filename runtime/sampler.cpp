#include "evenstep/sampler.h"

#include <bit>

#include "evenstep/error.h"

namespace evenstep {
namespace {

constexpr int rounds = 8;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

}  // namespace

Sampler::Sampler(std::int64_t samples, std::uint64_t seed)
    : samples_(samples), seed_(mix(seed + 0x9e3779b97f4a7c15U)) {
  if (samples < 1 || samples > std::int64_t{1} << 62)
    throw UsageError("a sampler needs from 1 to 2^62 samples, got " + std::to_string(samples));
  half_bits_ = (std::bit_width(static_cast<std::uint64_t>(samples - 1)) + 1) / 2;
}

std::int64_t Sampler::at(std::int64_t epoch, std::int64_t position) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  const std::uint64_t key = mix(seed_ ^ mix(static_cast<std::uint64_t>(epoch) + 1));
  auto walker = static_cast<std::uint64_t>(position);
  do {
    std::uint64_t left = walker >> half_bits_;
    std::uint64_t right = walker & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t next = left ^ (mix(key + (round << 56) + right) & mask);
      left = right;
      right = next;
    }
    walker = left << half_bits_ | right;
  } while (walker >= static_cast<std::uint64_t>(samples_));
  return static_cast<std::int64_t>(walker);
}

}  // namespace evenstep
