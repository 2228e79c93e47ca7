#include "lb/tail.h"

#include <algorithm>

namespace evenstep::lb {

template <typename Real>
void Tail::write(std::span<Real> tail, int rank, const Record& record,
                 std::span<const double> sums) const {
  std::ranges::fill(tail, Real{0});
  std::ranges::transform(sums, tail.begin(), [](double sum) { return static_cast<Real>(sum); });
  encode(record,
         tail.subspan(static_cast<std::size_t>(sums_ + rank * record_digits), record_digits));
}

template <typename Real>
int Tail::read(std::span<const Real> tail, std::span<double> sums,
               std::span<Record> records) const {
  std::copy_n(tail.begin(), sums_, sums.begin());
  int unreadable = -1;
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    const auto slot = static_cast<std::size_t>(sums_ + rank * record_digits);
    const auto record = decode(tail.subspan(slot, record_digits));
    records[static_cast<std::size_t>(rank)] = record.value_or(Record{});
    if (!record) unreadable = rank;
  }
  return unreadable;
}

template void Tail::write(std::span<float>, int, const Record&, std::span<const double>) const;
template void Tail::write(std::span<double>, int, const Record&, std::span<const double>) const;
template int Tail::read(std::span<const float>, std::span<double>, std::span<Record>) const;
template int Tail::read(std::span<const double>, std::span<double>, std::span<Record>) const;

}  // namespace evenstep::lb
