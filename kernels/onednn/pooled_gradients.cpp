#include "kernels/onednn/pooled_gradients.h"

#include <algorithm>

#include "kernels/onednn/loops.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

using Entry = PooledGradients::Entry;

constexpr std::int64_t block_channels = 16;  // of nChw16c
constexpr std::int64_t window_channels = PooledGradients::window_channels;
constexpr int run_vectors = 6;  // three neighbouring taps of 32 channels
constexpr int window_vectors = 18;
constexpr std::int64_t window_floats = 16 * window_vectors;

typedef float Vector __attribute__((vector_size(64), aligned(64), may_alias));

EVENSTEP_INLINE const Vector& vector_at(const float* at) {
  return *reinterpret_cast<const Vector*>(at);
}
// It is written through the reference.
// NOLINTNEXTLINE(readability-non-const-parameter)
EVENSTEP_INLINE Vector& vector_at(float* at) {
  return *static_cast<Vector*>(static_cast<void*>(at));
}

/// sums += gradient x window, for each entry of a list.
EVENSTEP_MULTIVERSION void add_windows(const Entry* list, std::int32_t length, const float* sample,
                                       std::int64_t row, float* sums) {
  Vector sum[window_vectors];
#pragma GCC unroll 18
  for (int v = 0; v < window_vectors; ++v) sum[v] = vector_at(sums + 16 * v);
  for (std::int32_t e = 0; e < length; ++e) {
    const float gradient = list[e].gradient;
    const float* window = sample + list[e].offset;
#pragma GCC unroll 18
    for (int v = 0; v < window_vectors; ++v) {
      const float* run = window + v / run_vectors * row;
      sum[v] += gradient * vector_at(run + 16 * (v % run_vectors));
    }
  }
#pragma GCC unroll 18
  for (int v = 0; v < window_vectors; ++v) vector_at(sums + 16 * v) = sum[v];
}

/// window += gradient x weights, for each entry of a list.
EVENSTEP_MULTIVERSION void spread_windows(const Entry* list, std::int32_t length,
                                          const float* weights, std::int64_t row, float* sample) {
  Vector weight[window_vectors];
#pragma GCC unroll 18
  for (int v = 0; v < window_vectors; ++v) weight[v] = vector_at(weights + 16 * v);
  for (std::int32_t e = 0; e < length; ++e) {
    const float gradient = list[e].gradient;
    float* window = sample + list[e].offset;
#pragma GCC unroll 18
    for (int v = 0; v < window_vectors; ++v) {
      float* run = window + v / run_vectors * row;
      vector_at(run + 16 * (v % run_vectors)) += gradient * weight[v];
    }
  }
}

/// Copies between 2 x height x width x 16 and the inside of (height + 2) x (width + 2) x 32.
EVENSTEP_MULTIVERSION void copy_inside(std::int64_t height, std::int64_t width, const float* blocks,
                                       float* padded) {
  for (std::int64_t y = 0; y < height; ++y) {
    float* to = padded + ((y + 1) * (width + 2) + 1) * window_channels;
    const float* low = blocks + y * width * block_channels;
    const float* high = low + height * width * block_channels;
    for (std::int64_t x = 0; x < width; ++x) {
      vector_at(to + 32 * x) = vector_at(low + 16 * x);
      vector_at(to + 32 * x + 16) = vector_at(high + 16 * x);
    }
  }
}

EVENSTEP_MULTIVERSION void copy_inside_back(std::int64_t height, std::int64_t width,
                                            const float* padded, float* blocks) {
  for (std::int64_t y = 0; y < height; ++y) {
    const float* from = padded + ((y + 1) * (width + 2) + 1) * window_channels;
    float* low = blocks + y * width * block_channels;
    float* high = low + height * width * block_channels;
    for (std::int64_t x = 0; x < width; ++x) {
      vector_at(low + 16 * x) = vector_at(from + 32 * x);
      vector_at(high + 16 * x) = vector_at(from + 32 * x + 16);
    }
  }
}

constexpr std::int64_t samples_a_breath = 16;

}  // namespace

PooledGradients::PooledGradients(Context& context, const SampleShape& input,
                                 std::int64_t out_channels)
    : context_(context),
      height_(input.height),
      width_(input.width),
      out_channels_(out_channels),
      groups_(input.channels / window_channels),
      row_((width_ + 2) * window_channels),
      list_length_((height_ / 2) * (width_ / 2) + 1) {
  const std::int64_t lists = context.menu.usual() * out_channels_;
  entries_.resize(static_cast<std::size_t>(lists * list_length_));
  lengths_.resize(static_cast<std::size_t>(lists));
  const dnnl::memory::desc desc({context.menu.usual(), groups_, height_ + 2, row_},
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
  const std::int64_t out_height = height_ / 2;
  const std::int64_t out_width = width_ / 2;
  const auto row = static_cast<std::int32_t>(row_);
  const std::int32_t winner_offset[] = {0, window_channels, row,
                                        row + std::int32_t{window_channels}};
  const std::int64_t start =
      (sample * (out_channels_ / block_channels) + block) * out_height * out_width * block_channels;
  for (std::int64_t i = 0; i < block_channels; ++i) {
    Entry* entries = list(sample, block * block_channels + i);
    std::int32_t count = 0;
    std::int64_t at = start + i;
    for (std::int64_t y = 0; y < out_height; ++y) {
      for (std::int64_t x = 0; x < out_width; ++x, at += block_channels) {
        const auto corner = static_cast<std::int32_t>(2 * y * row_ + 2 * x * window_channels);
        // Written always, kept only if not zero: whether it is cannot be predicted.
        entries[count] = {corner + winner_offset[winners[at]], gradients[at]};
        count += gradients[at] != 0 ? 1 : 0;
      }
    }
    length(sample, block * block_channels + i) = count;
  }
}

void PooledGradients::collect(const float* gradients, const std::uint32_t* winners,
                              std::int64_t samples) {
  samples_ = samples;
  const std::int64_t blocks = out_channels_ / block_channels;
  loops::split_over_threads(samples * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      collect_channels(gradients, winners, i / blocks, i % blocks);
    }
  });
}

void PooledGradients::weights_of_block(float* weight_gradients, float* bias_gradients,
                                       std::int64_t block) {
  const std::int64_t first = block * block_channels;
  std::fill_n(weight_gradients + first * groups_ * window_floats,
              block_channels * groups_ * window_floats, 0.0f);
  std::fill_n(bias_gradients + first, block_channels, 0.0f);
  // Few channels at a time: their sums and a sample's windows fit the first-level cache together.
  for (std::int64_t sample = 0; sample < samples_; ++sample) {
    for (std::int64_t channel = first; channel < first + block_channels; ++channel) {
      const Entry* entries = list(sample, channel);
      const std::int32_t count = length(sample, channel);
      for (std::int32_t e = 0; e < count; ++e) bias_gradients[channel] += entries[e].gradient;
      for (std::int64_t group = 0; group < groups_; ++group) {
        add_windows(entries, count, padded(sample, group), row_,
                    weight_gradients + (channel * groups_ + group) * window_floats);
      }
    }
  }
}

void PooledGradients::weights(const float* input, float* weight_gradients, float* bias_gradients) {
  const std::int64_t group_floats = height_ * width_ * window_channels;
  loops::split_over_threads(samples_ * groups_, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      float* to = padded(i / groups_, i % groups_);
      std::fill_n(to, (height_ + 2) * row_, 0.0f);
      copy_inside(height_, width_, input + i * group_floats, to);
    }
  });
  loops::split_over_threads(out_channels_ / block_channels, 1,
                            [&](std::int64_t first, std::int64_t last) {
                              for (std::int64_t block = first; block < last; ++block) {
                                weights_of_block(weight_gradients, bias_gradients, block);
                                if (first == 0) context_.breathe();
                              }
                            });
}

void PooledGradients::input(const float* weights, float* input_gradients) {
  const std::int64_t group_floats = height_ * width_ * window_channels;
  loops::split_over_threads(samples_ * groups_, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t sample = i / groups_;
      const std::int64_t group = i % groups_;
      float* sums = padded(sample, group);
      std::fill_n(sums, (height_ + 2) * row_, 0.0f);
      for (std::int64_t channel = 0; channel < out_channels_; ++channel) {
        spread_windows(list(sample, channel), length(sample, channel),
                       weights + (channel * groups_ + group) * window_floats, row_, sums);
      }
      copy_inside_back(height_, width_, sums, input_gradients + i * group_floats);
      if (first == 0 && i % samples_a_breath == samples_a_breath - 1) context_.breathe();
    }
  });
}

}  // namespace evenstep::kernels::onednn
