#include "kernels/onednn/pooled_gradients.h"

#include <algorithm>

#include "kernels/onednn/loops.h"
#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {
namespace {

using Entry = PooledGradients::Entry;

constexpr int taps = 9;

template <int lanes>
struct VectorOf {
  static constexpr int alignment = lanes == 4 ? 4 : 4 * lanes;  // a plane's windows start anywhere
  typedef float Type __attribute__((vector_size(4 * lanes), aligned(alignment), may_alias));
};

template <int lanes>
EVENSTEP_INLINE const auto& vector_at(const float* at) {
  return *reinterpret_cast<const typename VectorOf<lanes>::Type*>(at);
}
template <int lanes>
EVENSTEP_INLINE auto& vector_at(float* at) {
  return *reinterpret_cast<typename VectorOf<lanes>::Type*>(at);
}

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
  typename VectorOf<lanes>::Type sum[vectors];
#pragma GCC unroll 18
  for (int v = 0; v < vectors; ++v) sum[v] = vector_at<lanes>(sums + lanes * v);
  for (std::int32_t e = 0; e < length; ++e) {
    const float gradient = list[e].gradient;
    const float* window = sample + list[e].offset;
#pragma GCC unroll 18
    for (int v = 0; v < vectors; ++v)
      sum[v] += gradient * vector_at<lanes>(window + place_in_rows<lanes, vectors>(v, row));
  }
#pragma GCC unroll 18
  for (int v = 0; v < vectors; ++v) vector_at<lanes>(sums + lanes * v) = sum[v];
}

/// window += gradient x weights, for each entry of a list.
template <int lanes, int vectors>
EVENSTEP_INLINE void spread_list(const Entry* list, std::int32_t length, const float* weights,
                                 std::int64_t row, float* sample) {
  typename VectorOf<lanes>::Type weight[vectors];
#pragma GCC unroll 18
  for (int v = 0; v < vectors; ++v) weight[v] = vector_at<lanes>(weights + lanes * v);
  for (std::int32_t e = 0; e < length; ++e) {
    const float gradient = list[e].gradient;
    float* window = sample + list[e].offset;
#pragma GCC unroll 18
    for (int v = 0; v < vectors; ++v)
      vector_at<lanes>(window + place_in_rows<lanes, vectors>(v, row)) += gradient * weight[v];
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
      vector_at<16>(to + 32 * x) = vector_at<16>(low + 16 * x);
      vector_at<16>(to + 32 * x + 16) = vector_at<16>(high + 16 * x);
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
      vector_at<16>(low + 16 * x) = vector_at<16>(from + 32 * x);
      vector_at<16>(high + 16 * x) = vector_at<16>(from + 32 * x + 16);
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
      list_length_((height_ / 2) * (width_ / 2) + 1) {
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
  const std::int64_t out_height = height_ / 2;
  const std::int64_t out_width = width_ / 2;
  const auto row = static_cast<std::int32_t>(row_);
  const auto pixel = static_cast<std::int32_t>(shape_.channels);
  const std::int32_t winner_offset[] = {0, pixel, row, row + pixel};
  const std::int64_t start =
      (sample * (out_channels_ / shape_.lanes) + block) * out_height * out_width * shape_.lanes;
  for (std::int64_t i = 0; i < shape_.lanes; ++i) {
    Entry* entries = list(sample, block * shape_.lanes + i);
    std::int32_t count = 0;
    std::int64_t at = start + i;
    for (std::int64_t y = 0; y < out_height; ++y) {
      for (std::int64_t x = 0; x < out_width; ++x, at += shape_.lanes) {
        const auto corner = static_cast<std::int32_t>(2 * y * row_ + 2 * x * pixel);
        // Written always, kept only if not zero: whether it is cannot be predicted.
        entries[count] = {corner + winner_offset[winners[at]], gradients[at]};
        count += gradients[at] != 0 ? 1 : 0;
      }
    }
    length(sample, block * shape_.lanes + i) = count;
  }
}

void PooledGradients::collect(const float* gradients, const std::uint32_t* winners,
                              std::int64_t samples) {
  samples_ = samples;
  const std::int64_t blocks = out_channels_ / shape_.lanes;
  loops::split_over_threads(samples * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      collect_channels(gradients, winners, i / blocks, i % blocks);
    }
  });
}

void PooledGradients::biases_of_block(float* bias_gradients, std::int64_t block) {
  for (std::int64_t channel = block * shape_.lanes; channel < (block + 1) * shape_.lanes;
       ++channel) {
    float sum = 0;
    for (std::int64_t sample = 0; sample < samples_; ++sample) {
      const Entry* entries = list(sample, channel);
      const std::int32_t count = length(sample, channel);
      for (std::int32_t e = 0; e < count; ++e) sum += entries[e].gradient;
    }
    bias_gradients[channel] = sum;
  }
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
