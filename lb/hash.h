// A hash of few bits that travels in records: it differs, but for chance, where what was added
// does.
#pragma once

#include <cstdint>

namespace evenstep::lb {

class Hash24 {
 public:
  void add(std::uint64_t value) {
    hash_ ^= value;
    hash_ *= 0xff51afd7ed558ccdU;
    hash_ ^= hash_ >> 32;
  }
  /// 24 bits: one digit of a record.
  std::uint32_t value() const { return static_cast<std::uint32_t>(hash_ >> 40); }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15U;
};

}  // namespace evenstep::lb
