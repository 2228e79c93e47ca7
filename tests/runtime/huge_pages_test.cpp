// Where large arrays lie: at the beginning of a page of 2 MiB, which the system may then give
// whole.
#include "runtime/huge_pages.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace evenstep::test {
namespace {

template <typename T>
std::uintptr_t offset_in(const std::vector<T, HugePageAllocator<T>>& values, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(values.data()) % bytes;
}

TEST_CASE("large arrays begin at a huge page, small ones at a cache line, and grow as any other") {
  constexpr std::size_t huge = std::size_t{2} << 20;
  for (const std::size_t bytes : {huge, huge + sizeof(double), 5 * huge})
    CHECK(offset_in(std::vector<double, HugePageAllocator<double>>(bytes / sizeof(double)), huge) ==
          0);
  for (const std::size_t count : {1, 3, 100'000})
    CHECK(offset_in(std::vector<float, HugePageAllocator<float>>(count), 64) == 0);
  std::vector<std::uint32_t, HugePageAllocator<std::uint32_t>> growing;
  for (std::uint32_t i = 0; i < 1'500'000; ++i) growing.push_back(i);  // through both kinds
  CHECK(offset_in(growing, huge) == 0);
  bool all = true;
  for (std::uint32_t i = 0; i < growing.size(); ++i) all = all && growing[i] == i;
  CHECK(all);
}

}  // namespace
}  // namespace evenstep::test
