#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "kernels/chunk_menu.h"

namespace evenstep::kernels {
namespace {

TEST_CASE("every share is cut exactly, ascending, into as few chunks as possible") {
  for (int largest : {1, 2, 16, 64, 1024}) {
    const ChunkMenu menu(largest);
    for (int share = 0; share <= 1000; ++share) {
      std::vector<int> chunks;
      menu.for_each_chunk(share, [&](int size) { chunks.push_back(size); });
      CAPTURE(largest);
      CAPTURE(share);
      CHECK(std::accumulate(chunks.begin(), chunks.end(), 0) == share);
      CHECK(std::is_sorted(chunks.begin(), chunks.end()));
      for (int size : chunks) CHECK((size <= largest && std::has_single_bit(unsigned(size))));
      // With powers of two, as many of the largest as fit and the bits of the rest is the fewest.
      const int fewest = share / largest + std::popcount(unsigned(share % largest));
      CHECK(static_cast<int>(chunks.size()) == fewest);
    }
  }
}

TEST_CASE("sizes are the powers of two up to the largest") {
  const ChunkMenu menu(16);
  const std::vector<int> sizes(menu.sizes().begin(), menu.sizes().end());
  CHECK(sizes == std::vector<int>{1, 2, 4, 8, 16});
  CHECK(menu.largest() == 16);
}

TEST_CASE("a largest chunk that is no power of two in range is refused, with its value") {
  for (int largest : {0, -4, 3, 12, 131072})
    CHECK_THROWS_AS(ChunkMenu{largest}, std::invalid_argument);
  CHECK_THROWS_WITH(ChunkMenu{12}, "largest chunk 12: must be a power of two from 1 to 65536");
}

}  // namespace
}  // namespace evenstep::kernels
