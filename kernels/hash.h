// Hashes for what must look random and be the same everywhere, whoever computes it.
#pragma once

#include <cstdint>

namespace evenstep::kernels {

/// The finaliser of splitmix64: every input bit flips each output bit with probability 1/2.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The finaliser of murmur3: the same for 32 bits, where loops of it must vectorise.
constexpr std::uint32_t hash32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace evenstep::kernels
