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

TEST_CASE("a large last chunk takes what it can, the rest goes in usual ones") {
  const ChunkMenu menu(16, 256);
  CHECK(menu.usual() == 16);
  CHECK(menu.largest() == 256);
  const auto chunks_of = [&](std::int64_t share, int last) {
    std::vector<int> chunks;
    menu.for_each_chunk(share, last, [&](int size) { chunks.push_back(size); });
    return chunks;
  };
  CHECK(chunks_of(256, 256) == std::vector<int>{256});
  CHECK(chunks_of(300, 1024) == std::vector<int>{4, 8, 16, 16, 256});
  CHECK(chunks_of(255, 256) == std::vector<int>{1, 2, 4, 8, 240});
  CHECK(chunks_of(255, 100) ==
        std::vector<int>{1, 2, 4, 8, 16, 16, 16, 16, 16, 16, 16, 16, 16, 96});
  CHECK(chunks_of(48, 16) == std::vector<int>{16, 16, 16});
  CHECK(chunks_of(9, 256) == std::vector<int>{1, 8});
  CHECK(chunks_of(0, 256).empty());
  for (int share = 0; share <= 1000; ++share) {
    const auto chunks = chunks_of(share, 64);
    CHECK(std::accumulate(chunks.begin(), chunks.end(), 0) == share);
    CHECK(std::is_sorted(chunks.begin(), chunks.end()));
  }
}

TEST_CASE("the largest last chunk is a multiple of the usual one") {
  CHECK(ChunkMenu(16, 100).largest() == 96);
  CHECK(ChunkMenu(16, 1).largest() == 16);
}

TEST_CASE("a largest chunk that is no power of two in range is refused, with its value") {
  for (int largest : {0, -4, 3, 12, 131072})
    CHECK_THROWS_AS(ChunkMenu{largest}, std::invalid_argument);
  CHECK_THROWS_WITH(ChunkMenu{12}, "largest chunk 12: must be a power of two from 1 to 65536");
}

}  // namespace
}  // namespace evenstep::kernels
