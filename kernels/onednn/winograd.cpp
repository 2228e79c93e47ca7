#include "kernels/onednn/winograd.h"

#include <omp.h>

#include <algorithm>

#include "kernels/onednn/loops.h"
#include "kernels/onednn/winograd_loops.h"

namespace evenstep::kernels::onednn {
namespace {

using winograd_loops::most_lanes, winograd_loops::pair_of, winograd_loops::places,
    winograd_loops::taps;

constexpr int most_channels = 128;  // more was not measured
// Of a strip's tiles, transformed: 256 KB, which stay in the second-level cache.
constexpr std::int64_t strip_floats = 65536;

/// Where the weights between an input channel and a block of output channels begin, at the first
/// place.
std::int64_t weights_at(std::int64_t inputs, std::int64_t outputs, std::int64_t lanes,
                        std::int64_t input, std::int64_t block) {
  const std::int64_t pair = pair_of(outputs / lanes);
  return (block / pair * inputs + input) * pair * lanes + block % pair * lanes;
}

}  // namespace

std::optional<Winograd::Shape> Winograd::shape_for(const Context& context, const Tensor& input,
                                                   const Node& convolution) {
  // With AVX-512 it was not measured yet.
  if (context.dtype != Dtype::f32 || !has_avx2() || has_avx512()) return std::nullopt;
  const SampleShape& in = convolution.input_shapes[0];
  const Shape shape{8, in.channels, convolution.output_shape.channels, in.height, in.width};
  const bool fits = convolution.spec.window == square(3, 1, 1) && shape.inputs % shape.lanes == 0 &&
                    shape.outputs % shape.lanes == 0 && shape.inputs <= most_channels &&
                    shape.outputs <= most_channels &&
                    layout_of(input.values[0].get_desc()) == layout(shape);
  return fits ? std::optional(shape) : std::nullopt;
}

dnnl::memory::format_tag Winograd::layout(const Shape& shape) {
  return shape.lanes == 16 ? dnnl::memory::format_tag::nChw16c : dnnl::memory::format_tag::nChw8c;
}

Winograd::Winograd(Context& context, const Shape& shape, Passes passes)
    : shape_(shape),
      tile_rows_((shape.height + 1) / 2),
      tile_columns_((shape.width + 1) / 2),
      passes_(passes),
      threads_(omp_get_max_threads()),
      zeros_(static_cast<std::size_t>(shape.width * shape.lanes)) {
  const std::int64_t channels = std::max(shape.inputs, shape.outputs);
  strip_ = std::max<std::int64_t>(1, strip_floats / (2 * places * channels * tile_columns_));
  forward_ = make_convolution(context, shape.inputs, shape.outputs);
  if (passes == Passes::both) {
    backward_ = make_convolution(context, shape.outputs, shape.inputs);
    const dnnl::memory::desc sums({threads_, places * shape.inputs * shape.outputs},
                                  dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
    weight_sums_ = context.plan.view(context.plan.new_region(), sums);
  }
  scratch_floats_ =
      2 * places * tiles(strip_) * channels + 4 * (2 * tile_columns_ + 2) * most_lanes;
  const dnnl::memory::desc desc({threads_, scratch_floats_}, dnnl::memory::data_type::f32,
                                dnnl::memory::format_tag::ab);
  scratch_ = context.plan.view(context.scratchpad, desc);
}

Winograd::Convolution Winograd::make_convolution(Context& context, std::int64_t inputs,
                                                 std::int64_t outputs) {
  const dnnl::memory::desc desc({places, inputs, outputs}, dnnl::memory::data_type::f32,
                                dnnl::memory::format_tag::abc);
  return {inputs, outputs, context.plan.view(context.plan.new_region(), desc)};
}

Winograd::Scratch Winograd::scratch() const {
  float* begin = data<float>(scratch_) + omp_get_thread_num() * scratch_floats_;
  const std::int64_t half = places * tiles(strip_) * std::max(shape_.inputs, shape_.outputs);
  return {begin, begin + half, begin + 2 * half};
}

void Winograd::load(const float* weights) {
  transform_weights(weights, false);
  if (passes_ == Passes::both) transform_weights(weights, true);
}

/// To the weights of forward_, or turned around to those of backward_.
void Winograd::transform_weights(const float* weights, bool backward) {
  const Convolution& to = backward ? backward_ : forward_;
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t place_step = to.inputs * to.outputs;
  // From one input or output channel of `to` to the next.
  const std::int64_t input_step = taps * (backward ? shape_.inputs : 1);
  const std::int64_t output_step = taps * (backward ? 1 : shape_.inputs);
  float windows[taps * most_lanes] = {};
  for (std::int64_t block = 0; block < to.outputs / lanes; ++block) {
    for (std::int64_t input = 0; input < to.inputs; ++input) {
      for (std::int64_t i = 0; i < lanes; ++i) {
        const float* window = weights + (block * lanes + i) * output_step + input * input_step;
        for (int tap = 0; tap < taps; ++tap)
          windows[tap * lanes + i] = window[backward ? taps - 1 - tap : tap];
      }
      const std::int64_t at = weights_at(to.inputs, to.outputs, lanes, input, block);
      winograd_loops::transform_windows(lanes, windows, data<float>(to.weights) + at, place_step);
    }
  }
}

void Winograd::forward(const float* input, const float* biases, std::int64_t samples,
                       float* output) {
  convolve(forward_, input, biases, samples, output);
}

void Winograd::backward_input(const float* output_gradients, std::int64_t samples,
                              float* input_gradients) {
  convolve(backward_, output_gradients, nullptr, samples, input_gradients);
}

void Winograd::transform_inputs(const float* input, std::int64_t channels, std::int64_t row,
                                std::int64_t count, const Scratch& to) const {
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t image_row = shape_.width * lanes;
  for (std::int64_t r = row; r < row + count; ++r) {
    const std::int64_t sample = r / tile_rows_;
    const std::int64_t top = 2 * (r % tile_rows_) - 1;
    for (std::int64_t block = 0; block < channels / lanes; ++block) {
      const float* plane = input + (sample * channels / lanes + block) * shape_.height * image_row;
      const float* image[4];
      for (int i = 0; i < 4; ++i) {
        const bool inside = top + i >= 0 && top + i < shape_.height;
        image[i] = inside ? plane + (top + i) * image_row : zeros_.data();
      }
      winograd_loops::transform_input_row({lanes, shape_.width, tile_columns_,
                                           to.inputs + tiles(r - row) * channels + block * lanes,
                                           tiles(count) * channels, channels},
                                          image, to.rows);
    }
  }
}

void Winograd::transform_outputs(const Scratch& from, std::int64_t channels, const float* biases,
                                 std::int64_t row, std::int64_t count, float* output) const {
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t blocks = channels / lanes;
  const std::int64_t image_row = shape_.width * lanes;
  for (std::int64_t r = row; r < row + count; ++r) {
    const std::int64_t top = 2 * (r % tile_rows_);
    for (std::int64_t block = 0; block < blocks; ++block) {
      float* first = output + ((r / tile_rows_ * blocks + block) * shape_.height + top) * image_row;
      float* const image[2] = {first, top + 1 < shape_.height ? first + image_row : nullptr};
      winograd_loops::transform_output_row(
          {lanes, shape_.width, tile_columns_,
           from.outputs + (block * tiles(count) + tiles(r - row)) * lanes, tiles(count) * channels,
           lanes},
          biases != nullptr ? biases + block * lanes : nullptr, image);
    }
  }
}

void Winograd::convolve(const Convolution& convolution, const float* input, const float* biases,
                        std::int64_t samples, float* output) {
  const std::int64_t inputs = convolution.inputs;
  const std::int64_t outputs = convolution.outputs;
  const std::int64_t rows = samples * tile_rows_;
  const auto run_strip = [&](std::int64_t row) {
    const std::int64_t count = std::min(strip_, rows - row);
    const Scratch own = scratch();
    transform_inputs(input, inputs, row, count, own);
    for (std::int64_t place = 0; place < places; ++place) {
      winograd_loops::multiply({shape_.lanes, inputs, outputs / shape_.lanes, tiles(count),
                                own.inputs + place * tiles(count) * inputs,
                                own.outputs + place * tiles(count) * outputs,
                                data<float>(convolution.weights) + place * inputs * outputs});
    }
    transform_outputs(own, outputs, biases, row, count, output);
  };
  const std::int64_t strips = (rows + strip_ - 1) / strip_;
  loops::split_over_threads(
      strips, 1,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t strip = first; strip < last; ++strip) run_strip(strip * strip_);
      },
      threads_);
}

void Winograd::backward_weights(const float* input, const float* output_gradients,
                                std::int64_t samples, Network::Pass pass, float* gradients) {
  const std::int64_t inputs = shape_.inputs;
  const std::int64_t outputs = shape_.outputs;
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t blocks = outputs / lanes;
  const std::int64_t count = places * inputs * outputs;  // of a thread's sums
  auto* sums = data<float>(weight_sums_);
  if (pass.first) std::fill_n(sums, threads_ * count, 0.0f);
  const std::int64_t strips = (samples * tile_rows_ + strip_ - 1) / strip_;
  loops::split_over_threads(
      strips, 1,
      [&](std::int64_t first, std::int64_t last) {
        sum_weights(input, output_gradients, first * strip_,
                    std::min(last * strip_, samples * tile_rows_));
      },
      threads_);
  if (!pass.last) return;
  for (int thread = 1; thread < threads_; ++thread) loops::add(sums + thread * count, sums, count);
  float windows[taps * most_lanes] = {};
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t channel = 0; channel < inputs; ++channel) {
      winograd_loops::transform_window_gradients(
          lanes, sums + weights_at(inputs, outputs, lanes, channel, block), inputs * outputs,
          windows);
      for (std::int64_t i = 0; i < lanes; ++i) {
        float* window = gradients + ((block * lanes + i) * inputs + channel) * taps;
        for (int tap = 0; tap < taps; ++tap) window[tap] = windows[tap * lanes + i];
      }
    }
  }
}

void Winograd::transform_gradients(const float* output_gradients, std::int64_t row,
                                   std::int64_t count, const Scratch& to) const {
  const std::int64_t lanes = shape_.lanes;
  const std::int64_t blocks = shape_.outputs / lanes;
  const std::int64_t image_row = shape_.width * lanes;
  for (std::int64_t r = row; r < row + count; ++r) {
    const std::int64_t top = 2 * (r % tile_rows_);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* upper =
          output_gradients + ((r / tile_rows_ * blocks + block) * shape_.height + top) * image_row;
      const float* const image[2] = {upper,
                                     top + 1 < shape_.height ? upper + image_row : zeros_.data()};
      winograd_loops::transform_gradient_row(
          {lanes, shape_.width, tile_columns_,
           to.outputs + (block * tiles(count) + tiles(r - row)) * lanes,
           tiles(count) * shape_.outputs, lanes},
          image);
    }
  }
}

/// Of rows of tiles [first, last), to the calling thread's sums.
void Winograd::sum_weights(const float* input, const float* output_gradients, std::int64_t first,
                           std::int64_t last) {
  const std::int64_t inputs = shape_.inputs;
  const std::int64_t outputs = shape_.outputs;
  float* sums = data<float>(weight_sums_) + omp_get_thread_num() * places * inputs * outputs;
  const Scratch own = scratch();
  for (std::int64_t row = first; row < last; row += strip_) {
    const std::int64_t count = std::min(strip_, last - row);
    transform_inputs(input, inputs, row, count, own);
    transform_gradients(output_gradients, row, count, own);
    for (std::int64_t place = 0; place < places; ++place) {
      winograd_loops::sum_products({shape_.lanes, inputs, outputs / shape_.lanes, tiles(count),
                                    own.inputs + place * tiles(count) * inputs,
                                    own.outputs + place * tiles(count) * outputs,
                                    sums + place * inputs * outputs});
    }
  }
}

}  // namespace evenstep::kernels::onednn
