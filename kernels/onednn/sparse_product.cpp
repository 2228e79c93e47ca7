#include "kernels/onednn/sparse_product.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/onednn/kept_lanes.h"
#include "kernels/onednn/loops.h"
#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn {
namespace {

using Panel = SparseProduct::Panel;

constexpr std::int64_t most_panel_floats = 6144;  // 24 KB: of 32 KB caches
static_assert(sizeof(float) * most_panel_floats <= 65536, "places have 16 bits");
constexpr std::int64_t most_vectors = 8;
constexpr std::int64_t least_vectors = 5;
constexpr std::int64_t most_depth_of_block = most_panel_floats / (least_vectors * 8);
// Of a matrix whose columns lie in one piece each, so many rows are put side by side at a time.
constexpr std::int64_t some_rows = 16;
// Entries are written eight at a time.
constexpr std::int64_t spare = 8;
// They are read four at a time: lists end with zeros up to a multiple of it, and blocks are such
// multiples deep.
constexpr std::int64_t round = 4;

using List = SparseProduct::List;
using Place = std::uint16_t;

/// sums += value `i` of `values`, which has four twice or more often, x a row of the panel.
template <int i, int lanes, int vectors>
EVENSTEP_INLINE void add_entry(const Vector<lanes>& values, const char* row,
                               Vector<lanes> (&sums)[vectors]) {
  Vector<lanes> value, factor;
  if constexpr (lanes == 16)
    value = __builtin_shufflevector(values, values, i, i, i, i, 4 + i, 4 + i, 4 + i, 4 + i, 8 + i,
                                    8 + i, 8 + i, 8 + i, 12 + i, 12 + i, 12 + i, 12 + i);
  else
    value = __builtin_shufflevector(values, values, i, i, i, i, 4 + i, 4 + i, 4 + i, 4 + i);
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    load(reinterpret_cast<const float*>(row) + lanes * v, factor);
    sums[v] += value * factor;
  }
}

template <int lanes>
EVENSTEP_INLINE void load_four(const float* from, Vector<lanes>& values) {
  Vector<4> four;
  load(from, four);
  if constexpr (lanes == 16)
    values = __builtin_shufflevector(four, four, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
  else
    values = __builtin_shufflevector(four, four, 0, 1, 2, 3, 0, 1, 2, 3);
}

/// sums = or += value x its row of the panel, for each entry of a list. Four values are read at a
/// time, and four places: reads from the cache are what bounds this.
template <int lanes, int vectors>
EVENSTEP_INLINE void add_list(const List& list, std::int64_t length, const float* panel, bool add,
                              float* results) {
  Vector<lanes> sums[vectors] = {}, four;
  if (add) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) load(results + lanes * v, sums[v]);
  }
  const char* rows = reinterpret_cast<const char*>(panel);
  for (std::int64_t e = 0; e < length; e += round) {
    std::uint64_t places;
    std::memcpy(&places, list.places + e, sizeof places);
    load_four<lanes>(list.values + e, four);
    add_entry<0, lanes>(four, rows + (places & 0xffff), sums);
    add_entry<1, lanes>(four, rows + (places >> 16 & 0xffff), sums);
    add_entry<2, lanes>(four, rows + (places >> 32 & 0xffff), sums);
    add_entry<3, lanes>(four, rows + (places >> 48), sums);
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) store(sums[v], results + lanes * v);
}

/// The lists of one block meet one panel.
struct Lists {
  List first;
  std::int64_t step;  // entries from a row's list to the next row's
  const std::int32_t* lengths;
  std::int64_t rows;
};

template <int lanes, int vectors>
EVENSTEP_INLINE void add_lists(const Lists& lists, const float* panel, bool add, float* results,
                               std::int64_t results_step) {
  for (std::int64_t row = 0; row < lists.rows; ++row) {
    const std::int64_t entry = row * lists.step;
    add_list<lanes, vectors>({lists.first.values + entry, lists.first.places + entry},
                             lists.lengths[row], panel, add, results + row * results_step);
  }
}

template <int lanes>
EVENSTEP_INLINE void add_lists(std::int64_t vectors, const Lists& lists, const float* panel,
                               bool add, float* sums, std::int64_t sums_step) {
  if (vectors == 8)
    add_lists<lanes, 8>(lists, panel, add, sums, sums_step);
  else if (vectors == 7)
    add_lists<lanes, 7>(lists, panel, add, sums, sums_step);
  else if (vectors == 6)
    add_lists<lanes, 6>(lists, panel, add, sums, sums_step);
  else
    add_lists<lanes, 5>(lists, panel, add, sums, sums_step);
}

EVENSTEP_MULTIVERSION void add_lists(const Panel& shape, const Lists& lists, const float* panel,
                                     bool add, float* sums, std::int64_t sums_step) {
  if (shape.lanes == 16)
    add_lists<16>(shape.vectors, lists, panel, add, sums, sums_step);
  else
    add_lists<8>(shape.vectors, lists, panel, add, sums, sums_step);
}

#if defined(__x86_64__)
/// Lists the first values, as many eights as there are; returns the list's length.
__attribute__((target("avx2,popcnt"))) std::int64_t list_eights(const float* from,
                                                                std::int64_t count,
                                                                float background,
                                                                std::int32_t panel_row,
                                                                const List& list) {
  const __m256i first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i places = _mm256_mullo_epi32(first, _mm256_set1_epi32(panel_row));
  std::int64_t length = 0;
  for (std::int64_t k = 0; k + 8 <= count; k += 8) {
    const __m256 v = _mm256_sub_ps(_mm256_loadu_ps(from + k), _mm256_set1_ps(background));
    const __m256 something = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const auto set = static_cast<unsigned>(_mm256_movemask_ps(something));
    const __m256i lanes = to_front(set);
    const __m256i their = _mm256_permutevar8x32_epi32(places, lanes);
    _mm256_storeu_ps(list.values + length, _mm256_permutevar8x32_ps(v, lanes));
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(list.places + length),
        _mm_packus_epi32(_mm256_castsi256_si128(their), _mm256_extracti128_si256(their, 1)));
    length += std::popcount(set);
    places = _mm256_add_epi32(places, _mm256_set1_epi32(8 * panel_row));
  }
  return length;
}
#endif

/// Lists what is not `background`; returns the list's length.
std::int32_t list_values(const float* from, std::int64_t count, float background,
                         std::int32_t panel_row, const List& list) {
  std::int64_t k = 0;
  std::int64_t length = 0;
#if defined(__x86_64__)
  if (has_avx2()) {
    length = list_eights(from, count, background, panel_row, list);
    k = count / 8 * 8;
  }
#endif
  for (; k < count; ++k) {
    list.values[length] = from[k] - background;
    list.places[length] = static_cast<Place>(k * panel_row);
    if (list.values[length] != 0) ++length;
  }
  // Zeros times the last entry's row: times another they might be NaN that nobody asked for.
  const Place last = list.places[std::max<std::int64_t>(length - 1, 0)];
  for (std::int64_t e = length; e % round != 0; ++e) {
    list.values[e] = 0;
    list.places[e] = last;
  }
  return static_cast<std::int32_t>(length);
}

}  // namespace

std::optional<SparseProduct::Panel> SparseProduct::panel_for(std::int64_t columns) {
  if (!has_avx2()) return std::nullopt;
  Panel panel{.lanes = has_avx512() ? 16 : 8, .vectors = most_vectors};
  for (; panel.vectors >= least_vectors; --panel.vectors)
    if (columns % panel.width() == 0) return panel;
  return std::nullopt;
}

SparseProduct::SparseProduct(Context& context, Panel panel, std::int64_t most_rows,
                             std::int64_t most_depth)
    : panel_(panel), most_block_(most_panel_floats / panel.width() / round * round) {
  const std::int64_t most_blocks = (most_depth + most_block_ - 1) / most_block_;
  most_entries_ = most_rows * (most_depth + most_blocks * (round + spare));
  constexpr std::int64_t entry_bytes = sizeof(float) + sizeof(Place);
  const dnnl::memory::desc bytes({entry_bytes * most_entries_}, dnnl::memory::data_type::u8,
                                 dnnl::memory::format_tag::a);
  entries_ = context.plan.view(context.product_scratch, bytes);
  lengths_.resize(static_cast<std::size_t>(most_rows * most_blocks));
}

List SparseProduct::list_of(std::int64_t block, std::int64_t row) const {
  const std::int64_t entry = (block * rows_ + row) * (block_ + spare);
  auto* values = data<float>(entries_);
  return {values + entry, reinterpret_cast<Place*>(values + most_entries_) + entry};
}

std::int64_t SparseProduct::block_depth(std::int64_t block) const {
  return std::min(block_, depth_ - block * block_);
}

void SparseProduct::list(const Matrix& left, std::int64_t rows, std::int64_t depth,
                         const float* backgrounds) {
  rows_ = rows;
  depth_ = depth;
  blocks_ = (depth + most_block_ - 1) / most_block_;
  block_ = ((depth + blocks_ - 1) / blocks_ + round - 1) / round * round;
  loops::split_over_threads(blocks_, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) list_block(left, backgrounds, block);
  });
}

void SparseProduct::list_block(const Matrix& left, const float* backgrounds, std::int64_t block) {
  const std::int64_t depth = block_depth(block);
  const auto panel_row =
      static_cast<std::int32_t>(sizeof(float)) * static_cast<std::int32_t>(panel_.width());
  const auto list_row = [&](const float* values, std::int64_t row) {
    lengths_[static_cast<std::size_t>(block * rows_ + row)] =
        list_values(values, depth, backgrounds != nullptr ? backgrounds[row] : 0, panel_row,
                    list_of(block, row));
  };
  if (left.column_step == 1) {
    for (std::int64_t row = 0; row < rows_; ++row)
      list_row(left.first + row * left.row_step + block * block_, row);
    return;
  }
  float some[some_rows * most_depth_of_block];
  for (std::int64_t first = 0; first < rows_; first += some_rows) {
    const std::int64_t count = std::min(some_rows, rows_ - first);
    pack(left.from_corner(first, block * block_), count, depth, some);
    for (std::int64_t row = 0; row < count; ++row) list_row(some + row * depth, first + row);
  }
}

void SparseProduct::multiply(const Matrix& right, std::int64_t columns, bool add,
                             float* results) const {
  const auto run = [&](std::int64_t first, std::int64_t last) {
    alignas(64) float panel[most_panel_floats];
    for (std::int64_t column = first * panel_.width(); column < last * panel_.width();
         column += panel_.width()) {
      for (std::int64_t block = 0; block < blocks_; ++block) {
        pack(right.from_corner(block * block_, column), block_depth(block), panel_.width(), panel);
        const Lists lists{list_of(block, 0), block_ + spare, lengths_.data() + block * rows_,
                          rows_};
        add_lists(panel_, lists, panel, add || block > 0, results + column, columns);
      }
    }
  };
  loops::split_over_threads(columns / panel_.width(), 1, run);
}

}  // namespace evenstep::kernels::onednn
