#include "kernels/onednn/sparse_product.h"

#include <algorithm>
#include <array>
#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/onednn/loops.h"
#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn {
namespace {

using Entry = SparseProduct::Entry;
using Panel = SparseProduct::Panel;

constexpr std::int64_t most_panel_floats = 6144;  // 24 KB: of 32 KB caches
constexpr std::int64_t most_vectors = 8;
constexpr std::int64_t least_vectors = 5;
constexpr std::int64_t most_depth_of_block = most_panel_floats / (least_vectors * 8);
// Of a matrix whose columns lie in one piece each, so many rows are put side by side at a time.
constexpr std::int64_t some_rows = 16;
// Entries are written eight at a time, and read two ahead.
constexpr std::int64_t spare = 8;
constexpr std::int64_t round = 4;  // blocks are a multiple of it deep

/// sums = or += value x its row of the panel, for each entry of a list.
template <int lanes, int vectors>
EVENSTEP_INLINE void add_list(const Entry* list, std::int32_t length, const float* panel, bool add,
                              float* sums) {
  Vector<lanes> sum[vectors] = {}, factor;
  if (add) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) load(sums + lanes * v, sum[v]);
  }
  // Offsets are read two entries ahead: loads that wait for their addresses would fill the queue.
  const char* rows = reinterpret_cast<const char*>(panel);
  std::int64_t offset = list[0].offset;
  std::int64_t next = list[1].offset;
  for (std::int32_t e = 0; e < length; ++e) {
    const float value = list[e].value;
    const float* row = reinterpret_cast<const float*>(rows + offset);
    offset = next;
    next = list[e + 2].offset;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      load(row + lanes * v, factor);
      sum[v] += value * factor;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) store(sum[v], sums + lanes * v);
}

/// The lists of one block meet one panel.
struct Lists {
  const Entry* entries;
  std::int64_t entries_step;  // from a row's list to the next row's
  const std::int32_t* lengths;
  std::int64_t rows;
};

template <int lanes, int vectors>
EVENSTEP_INLINE void add_lists(const Lists& lists, const float* panel, bool add, float* sums,
                               std::int64_t sums_step) {
  for (std::int64_t row = 0; row < lists.rows; ++row) {
    add_list<lanes, vectors>(lists.entries + row * lists.entries_step, lists.lengths[row], panel,
                             add, sums + row * sums_step);
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

/// For every set of eight lanes, the bits of a byte: its lanes, a byte each, in order.
constexpr auto lanes_of = [] {
  std::array<std::uint64_t, 256> result{};
  for (unsigned set = 0; set < 256; ++set) {
    for (unsigned lane = 0, place = 0; lane < 8; ++lane)
      if ((set >> lane & 1) != 0) result[set] |= std::uint64_t{lane} << (8 * place++);
  }
  return result;
}();

#if defined(__x86_64__)
/// Lists the first values, as many eights as there are; returns the list's length.
__attribute__((target("avx2,popcnt"))) std::int32_t list_eights(const float* values,
                                                                std::int64_t count,
                                                                float background,
                                                                std::int32_t panel_row,
                                                                Entry* list) {
  const __m256i first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i offsets = _mm256_mullo_epi32(first, _mm256_set1_epi32(panel_row));
  Entry* to = list;
  for (std::int64_t k = 0; k + 8 <= count; k += 8) {
    const __m256 v = _mm256_sub_ps(_mm256_loadu_ps(values + k), _mm256_set1_ps(background));
    const __m256 something = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const auto set = static_cast<unsigned>(_mm256_movemask_ps(something));
    const __m256i lanes =
        _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(lanes_of[set])));
    const __m256 kept = _mm256_permutevar8x32_ps(v, lanes);
    const __m256 their = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(offsets, lanes));
    const __m256 even = _mm256_unpacklo_ps(their, kept);  // entries 0, 1, 4, 5
    const __m256 odd = _mm256_unpackhi_ps(their, kept);   // 2, 3, 6, 7
    _mm256_storeu_ps(reinterpret_cast<float*>(to), _mm256_permute2f128_ps(even, odd, 0x20));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + 4), _mm256_permute2f128_ps(even, odd, 0x31));
    to += std::popcount(set);
    offsets = _mm256_add_epi32(offsets, _mm256_set1_epi32(8 * panel_row));
  }
  return static_cast<std::int32_t>(to - list);
}
#endif

/// Lists what is not `background`; returns the list's length.
std::int32_t list_values(const float* values, std::int64_t count, float background,
                         std::int32_t panel_row, Entry* list) {
  std::int64_t k = 0;
  std::int32_t length = 0;
#if defined(__x86_64__)
  if (has_avx2()) {
    length = list_eights(values, count, background, panel_row, list);
    k = count / 8 * 8;
  }
#endif
  for (; k < count; ++k) {
    const float value = values[k] - background;
    list[length] = {static_cast<std::int32_t>(k) * panel_row, value};
    if (value != 0) ++length;
  }
  return length;
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
  const std::int64_t entries = most_rows * (most_depth + most_blocks * (round + spare));
  const dnnl::memory::desc two_floats_each({2 * entries}, dnnl::memory::data_type::f32,
                                           dnnl::memory::format_tag::a);
  entries_ = context.plan.view(context.product_scratch, two_floats_each);
  lengths_.resize(static_cast<std::size_t>(most_rows * most_blocks));
}

Entry* SparseProduct::entries(std::int64_t block, std::int64_t row) const {
  return data<Entry>(entries_) + (block * rows_ + row) * (block_ + spare);
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
                    entries(block, row));
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
        const Lists lists{entries(block, 0), block_ + spare, lengths_.data() + block * rows_,
                          rows_};
        add_lists(panel_, lists, panel, add || block > 0, results + column, columns);
      }
    }
  };
  loops::split_over_threads(columns / panel_.width(), 1, run);
}

}  // namespace evenstep::kernels::onednn
