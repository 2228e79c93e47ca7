#include "kernels/onednn/pooled_gradients.h"

#include <algorithm>
#include <bit>

#include "kernels/onednn/kept_lanes.h"
#include "kernels/onednn/loops.h"
#include "kernels/onednn/vectors.h"

namespace evenstep::kernels::onednn {
namespace {

using Entry = PooledGradients::Entry;

constexpr int taps = 9;
constexpr int eight = 8;  // entries that are listed at a time

/// The window's vector v, where the window is three runs of neighbouring taps, `row` floats apart.
template <int lanes, int vectors>
EVENSTEP_INLINE std::int64_t place_in_rows(int v, std::int64_t row) {
  constexpr int run_vectors = vectors / 3;
  return v / run_vectors * row + lanes * (v % run_vectors);
}

/// sums += gradient x window, for each entry of a list.
template <int lanes, int vectors>
EVENSTEP_INLINE void add_list(const Entry* list, std::int32_t length, const float* sample,
                              std::int64_t row, float* sums) {
  Vector<lanes> sum[vectors], values;
#pragma GCC unroll 18
  for (int v = 0; v < vectors; ++v) load(sums + lanes * v, sum[v]);
  for (std::int32_t e = 0; e < length; ++e) {
    const float gradient = list[e].gradient;
    const float* window = sample + list[e].offset;
#pragma GCC unroll 18
    for (int v = 0; v < vectors; ++v) {
      load(window + place_in_rows<lanes, vectors>(v, row), values);
      sum[v] += gradient * values;
    }
  }
#pragma GCC unroll 18
  for (int v = 0; v < vectors; ++v) store(sum[v], sums + lanes * v);
}

/// window += gradient x weights, for each entry of a list.
template <int lanes, int vectors>
EVENSTEP_INLINE void spread_list(const Entry* list, std::int32_t length, const float* weights,
                                 std::int64_t row, float* sample) {
  Vector<lanes> weight[vectors], sums;
#pragma GCC unroll 18
  for (int v = 0; v < vectors; ++v) load(weights + lanes * v, weight[v]);
  for (std::int32_t e = 0; e < length; ++e) {
    const float gradient = list[e].gradient;
    float* window = sample + list[e].offset;
#pragma GCC unroll 18
    for (int v = 0; v < vectors; ++v) {
      float* place = window + place_in_rows<lanes, vectors>(v, row);
      load(place, sums);
      sums += gradient * weight[v];
      store(sums, place);
    }
  }
}

EVENSTEP_MULTIVERSION void add_windows(std::int64_t channels, const Entry* list,
                                       std::int32_t length, const float* sample, std::int64_t row,
                                       float* sums) {
  if (channels == 32)
    add_list<16, 2 * taps>(list, length, sample, row, sums);
  else if (channels == 8)
    add_list<8, taps>(list, length, sample, row, sums);
  else
    add_list<4, 3>(list, length, sample, row, sums);
}

EVENSTEP_MULTIVERSION void spread_windows(std::int64_t channels, const Entry* list,
                                          std::int32_t length, const float* weights,
                                          std::int64_t row, float* sample) {
  if (channels == 32)
    spread_list<16, 2 * taps>(list, length, weights, row, sample);
  else
    spread_list<8, taps>(list, length, weights, row, sample);
}

/// Of a sample: where the windows of a pool's upper left output begin, what the winner adds to
/// that, and floats from a pool to the next.
struct Pools {
  const std::int32_t* corners;
  std::int32_t winners[4];
  std::int64_t step;
};

#if defined(__x86_64__)
/// rows[i][k] becomes rows[k][i].
__attribute__((target("avx2"))) inline void transpose(__m256 (&rows)[eight]) {
  __m256 pairs[eight], fours[eight];
  for (int i = 0; i < eight; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < eight; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/// Appends what is not zero in the first pools, a multiple of eight of them, to the lists of eight
/// channels.
__attribute__((target("avx2,popcnt"))) void collect_eights(const Pools& pools,
                                                           const float* gradients,
                                                           const std::uint32_t* winners,
                                                           std::int64_t count, Entry** lists,
                                                           std::int32_t* lengths) {
  const __m256i from_corner = _mm256_setr_epi32(pools.winners[0], pools.winners[1],
                                                pools.winners[2], pools.winners[3], 0, 0, 0, 0);
  for (std::int64_t pool = 0; pool < count; pool += eight) {
    __m256 values[eight], offsets[eight];
    for (int i = 0; i < eight; ++i) {
      const std::int64_t at = (pool + i) * pools.step;
      values[i] = _mm256_loadu_ps(gradients + at);
      const __m256i winner = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(winners + at));
      offsets[i] =
          _mm256_castsi256_ps(_mm256_add_epi32(_mm256_permutevar8x32_epi32(from_corner, winner),
                                               _mm256_set1_epi32(pools.corners[pool + i])));
    }
    transpose(values);
    transpose(offsets);
    for (int i = 0; i < eight; ++i) {
      const __m256 something = _mm256_cmp_ps(values[i], _mm256_setzero_ps(), _CMP_NEQ_UQ);
      const auto set = static_cast<unsigned>(_mm256_movemask_ps(something));
      const __m256i lanes = to_front(set);
      const __m256 value = _mm256_permutevar8x32_ps(values[i], lanes);
      const __m256 offset = _mm256_permutevar8x32_ps(offsets[i], lanes);
      const __m256 even = _mm256_unpacklo_ps(offset, value);  // entries 0, 1, 4, 5
      const __m256 odd = _mm256_unpackhi_ps(offset, value);   // 2, 3, 6, 7
      auto* to = reinterpret_cast<float*>(lists[i] + lengths[i]);
      _mm256_storeu_ps(to, _mm256_permute2f128_ps(even, odd, 0x20));
      _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(even, odd, 0x31));
      lengths[i] += std::popcount(set);
    }
  }
}
#endif

template <int lanes>
EVENSTEP_INLINE void sum_lanes(std::int64_t samples, const float* first, std::int64_t sample_step,
                               std::int64_t count, float* sums) {
  constexpr int parts = 4;  // since additions wait for each other
  Vector<lanes> sum[parts] = {}, values;
  for (std::int64_t sample = 0; sample < samples; ++sample, first += sample_step) {
    std::int64_t i = 0;
    for (; i + parts * lanes <= count; i += parts * lanes) {
#pragma GCC unroll 4
      for (int part = 0; part < parts; ++part) {
        load(first + i + part * lanes, values);
        sum[part] += values;
      }
    }
    for (; i < count; i += lanes) {
      load(first + i, values);
      sum[0] += values;
    }
  }
  store((sum[0] + sum[1]) + (sum[2] + sum[3]), sums);
}

/// sums[lane] = what all samples' pixels, of `lanes` channels each, have there: `count` floats a
/// sample.
EVENSTEP_MULTIVERSION void sum_pixels(std::int64_t lanes, std::int64_t samples, const float* first,
                                      std::int64_t sample_step, std::int64_t count, float* sums) {
  if (lanes == 16)
    sum_lanes<16>(samples, first, sample_step, count, sums);
  else
    sum_lanes<8>(samples, first, sample_step, count, sums);
}

/// Copies between an activation map of height x width x channels and the inside of (height + 2) x
/// (width + 2) x channels. 32 channels are two maps of 16, one behind the other.
EVENSTEP_MULTIVERSION void copy_inside(std::int64_t channels, std::int64_t height,
                                       std::int64_t width, const float* from, float* padded) {
  for (std::int64_t y = 0; y < height; ++y) {
    float* to = padded + ((y + 1) * (width + 2) + 1) * channels;
    if (channels < 32) {
      std::copy_n(from + y * width * channels, width * channels, to);
      continue;
    }
    const float* low = from + y * width * 16;
    const float* high = low + height * width * 16;
    for (std::int64_t x = 0; x < width; ++x) {
      std::copy_n(low + 16 * x, 16, to + 32 * x);
      std::copy_n(high + 16 * x, 16, to + 32 * x + 16);
    }
  }
}

EVENSTEP_MULTIVERSION void copy_inside_back(std::int64_t channels, std::int64_t height,
                                            std::int64_t width, const float* padded, float* to) {
  for (std::int64_t y = 0; y < height; ++y) {
    const float* from = padded + ((y + 1) * (width + 2) + 1) * channels;
    if (channels < 32) {
      std::copy_n(from, width * channels, to + y * width * channels);
      continue;
    }
    float* low = to + y * width * 16;
    float* high = low + height * width * 16;
    for (std::int64_t x = 0; x < width; ++x) {
      std::copy_n(from + 32 * x, 16, low + 16 * x);
      std::copy_n(from + 32 * x + 16, 16, high + 16 * x);
    }
  }
}

constexpr std::int64_t samples_a_breath = 16;

}  // namespace

PooledGradients::PooledGradients(Context& context, const SampleShape& input,
                                 std::int64_t out_channels, Shape shape)
    : context_(context),
      shape_(shape),
      height_(input.height),
      width_(input.width),
      out_channels_(out_channels),
      groups_(input.channels / shape.channels),
      row_((width_ + 2) * shape.channels),
      list_length_((height_ / 2) * (width_ / 2) + eight) {
  for (std::int64_t y = 0; y < height_ / 2; ++y)
    for (std::int64_t x = 0; x < width_ / 2; ++x)
      corners_.push_back(static_cast<std::int32_t>(2 * y * row_ + 2 * x * shape.channels));
  const std::int64_t lists = context.menu.usual() * out_channels_;
  entries_.resize(static_cast<std::size_t>(lists * list_length_));
  lengths_.resize(static_cast<std::size_t>(lists));
  // One sample more: the vectors of a plane's last windows read one float past them.
  const dnnl::memory::desc desc({context.menu.usual() + 1, groups_, height_ + 2, row_},
                                dnnl::memory::data_type::f32, dnnl::memory::format_tag::abcd);
  padded_ = context.plan.view(context.plan.new_region(), desc);
}

PooledGradients::Entry* PooledGradients::list(std::int64_t sample, std::int64_t channel) {
  return entries_.data() + (sample * out_channels_ + channel) * list_length_;
}

std::int32_t& PooledGradients::length(std::int64_t sample, std::int64_t channel) {
  return lengths_[static_cast<std::size_t>(sample * out_channels_ + channel)];
}

float* PooledGradients::padded(std::int64_t sample, std::int64_t group) {
  return data<float>(padded_) + (sample * groups_ + group) * (height_ + 2) * row_;
}

void PooledGradients::collect_channels(const float* gradients, const std::uint32_t* winners,
                                       std::int64_t sample, std::int64_t block) {
  const auto row = static_cast<std::int32_t>(row_);
  const auto pixel = static_cast<std::int32_t>(shape_.channels);
  const auto pools = static_cast<std::int64_t>(corners_.size());
  const Pools all{corners_.data(), {0, pixel, row, row + pixel}, shape_.lanes};
  const std::int64_t start =
      (sample * (out_channels_ / shape_.lanes) + block) * pools * shape_.lanes;
  for (std::int64_t lane = 0; lane < shape_.lanes; lane += eight) {
    Entry* lists[eight];
    std::int32_t* lengths = &length(sample, block * shape_.lanes + lane);
    for (int i = 0; i < eight; ++i) lists[i] = list(sample, block * shape_.lanes + lane + i);
    std::fill_n(lengths, eight, 0);
    std::int64_t pool = 0;
#if defined(__x86_64__)
    if (has_avx2()) {
      pool = pools / eight * eight;
      collect_eights(all, gradients + start + lane, winners + start + lane, pool, lists, lengths);
    }
#endif
    for (; pool < pools; ++pool) {
      for (int i = 0; i < eight; ++i) {
        const std::int64_t at = start + pool * shape_.lanes + lane + i;
        // Written always, kept only if not zero: whether it is cannot be predicted.
        lists[i][lengths[i]] = {corners_[static_cast<std::size_t>(pool)] + all.winners[winners[at]],
                                gradients[at]};
        lengths[i] += gradients[at] != 0 ? 1 : 0;
      }
    }
  }
}

void PooledGradients::collect(const float* gradients, const std::uint32_t* winners,
                              std::int64_t samples) {
  gradients_ = gradients;
  samples_ = samples;
  const std::int64_t blocks = out_channels_ / shape_.lanes;
  loops::split_over_threads(samples * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      collect_channels(gradients, winners, i / blocks, i % blocks);
    }
  });
}

void PooledGradients::biases_of_block(float* bias_gradients, std::int64_t block) {
  const std::int64_t block_floats = (height_ / 2) * (width_ / 2) * shape_.lanes;
  const float* first = gradients_ + block * block_floats;
  sum_pixels(shape_.lanes, samples_, first, out_channels_ / shape_.lanes * block_floats,
             block_floats, bias_gradients + block * shape_.lanes);
}

void PooledGradients::weights_of_block(float* weight_gradients, std::int64_t block) {
  const std::int64_t first = block * shape_.lanes;
  const std::int64_t window_floats = taps * shape_.channels;
  std::fill_n(weight_gradients + first * groups_ * window_floats,
              shape_.lanes * groups_ * window_floats, 0.0f);
  // Few channels at a time: their sums and a sample's windows fit the first-level cache together.
  for (std::int64_t sample = 0; sample < samples_; ++sample) {
    for (std::int64_t group = 0; group < groups_; ++group) {
      for (std::int64_t channel = first; channel < first + shape_.lanes; ++channel) {
        add_windows(shape_.channels, list(sample, channel), length(sample, channel),
                    padded(sample, group), row_,
                    weight_gradients + (channel * groups_ + group) * window_floats);
      }
    }
  }
}

void PooledGradients::plane_weights_of_block(float* weight_gradients, std::int64_t block) {
  for (std::int64_t channel = block * shape_.lanes; channel < (block + 1) * shape_.lanes;
       ++channel) {
    for (std::int64_t plane = 0; plane < groups_; ++plane) {
      float sums[3][4] = {};
      for (std::int64_t sample = 0; sample < samples_; ++sample)
        add_windows(1, list(sample, channel), length(sample, channel), padded(sample, plane), row_,
                    sums[0]);
      float* weights = weight_gradients + (channel * groups_ + plane) * taps;
      for (const float* row : sums) weights = std::copy_n(row, 3, weights);
    }
  }
}

void PooledGradients::weights(const float* input, float* weight_gradients, float* bias_gradients) {
  const std::int64_t group_floats = height_ * width_ * shape_.channels;
  loops::split_over_threads(samples_ * groups_, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      float* to = padded(i / groups_, i % groups_);
      std::fill_n(to, (height_ + 2) * row_, 0.0f);
      copy_inside(shape_.channels, height_, width_, input + i * group_floats, to);
    }
  });
  const auto run = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      biases_of_block(bias_gradients, block);
      if (shape_.channels == 1)
        plane_weights_of_block(weight_gradients, block);
      else
        weights_of_block(weight_gradients, block);
      if (first == 0) context_.breathe();
    }
  };
  loops::split_over_threads(out_channels_ / shape_.lanes, 1, run);
}

void PooledGradients::input(const float* weights, float* input_gradients) {
  const std::int64_t group_floats = height_ * width_ * shape_.channels;
  loops::split_over_threads(samples_ * groups_, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t sample = i / groups_;
      const std::int64_t group = i % groups_;
      float* sums = padded(sample, group);
      std::fill_n(sums, (height_ + 2) * row_, 0.0f);
      for (std::int64_t channel = 0; channel < out_channels_; ++channel) {
        spread_windows(shape_.channels, list(sample, channel), length(sample, channel),
                       weights + (channel * groups_ + group) * taps * shape_.channels, row_, sums);
      }
      copy_inside_back(shape_.channels, height_, width_, sums, input_gradients + i * group_floats);
      if (first == 0 && i % samples_a_breath == samples_a_breath - 1) context_.breathe();
    }
  });
}

}  // namespace evenstep::kernels::onednn
