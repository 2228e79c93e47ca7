#include "tests/kernels/reference_model.h"

#include <algorithm>
#include <cmath>

namespace evenstep::kernels::test {
namespace {

using Values = std::vector<double>;

/// `weight` and `bias` of one layer.
struct Parameters {
  std::span<const double> weight;
  std::span<const double> bias;
};

Values convolve(const Values& in, SampleShape shape, int outputs, const Parameters& p) {
  const int h = shape.height;
  const int w = shape.width;
  Values out;
  for (int o = 0; o < outputs; ++o) {
    for (int y = 0; y < h; ++y) {
      for (int x = 0; x < w; ++x) {
        double sum = p.bias[static_cast<std::size_t>(o)];
        for (int c = 0; c < shape.channels; ++c) {
          for (int k = 0; k < 9; ++k) {
            const int yy = y + k / 3 - 1;
            const int xx = x + k % 3 - 1;
            if (yy < 0 || yy >= h || xx < 0 || xx >= w) continue;
            sum += p.weight[static_cast<std::size_t>((o * shape.channels + c) * 9 + k)] *
                   in[static_cast<std::size_t>((c * h + yy) * w + xx)];
          }
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

Values pool(const Values& in, SampleShape shape) {
  Values out;
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y + 1 < shape.height; y += 2) {
      for (int x = 0; x + 1 < shape.width; x += 2) {
        const auto at = static_cast<std::size_t>((c * shape.height + y) * shape.width + x);
        const auto below = at + static_cast<std::size_t>(shape.width);
        out.push_back(std::max({in[at], in[at + 1], in[below], in[below + 1]}));
      }
    }
  }
  return out;
}

Values multiply(const Values& in, int outputs, const Parameters& p) {
  Values out;
  for (std::size_t o = 0; o < static_cast<std::size_t>(outputs); ++o) {
    double sum = p.bias[o];
    for (std::size_t i = 0; i < in.size(); ++i) sum += p.weight[o * in.size() + i] * in[i];
    out.push_back(sum);
  }
  return out;
}

Values apply(const LayerSpec& layer, const Values& in, SampleShape shape, int outputs,
             const Parameters& p) {
  if (layer.kind == LayerKind::convolution) return convolve(in, shape, outputs, p);
  if (layer.kind == LayerKind::max_pooling) return pool(in, shape);
  if (layer.kind == LayerKind::linear) return multiply(in, outputs, p);
  Values out = in;
  for (double& value : out) value = std::max(value, 0.0);
  return out;
}

double cross_entropy(const Values& logits, std::size_t label) {
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - logits[label]);
  return std::log(sum);
}

Values logits_of(std::span<const LayerSpec> layers, SampleShape shape, int classes,
                 std::span<const double> parameters, Values values) {
  std::size_t end = parameters.size();  // the first layer's parameters come last
  for (const LayerSpec& layer : layers) {
    const auto ranges = parameter_ranges(std::span(&layer, 1), shape, classes);
    Parameters own;
    int outputs = 0;
    if (!ranges.empty()) {
      const auto weights = static_cast<std::size_t>(ranges[0].count);
      const auto biases = static_cast<std::size_t>(ranges[1].count);
      end -= weights + biases;
      own = {parameters.subspan(end, weights), parameters.subspan(end + weights, biases)};
      outputs = static_cast<int>(biases);
    }
    values = apply(layer, values, shape, outputs, own);
    shape = output_shape(layer, shape, classes);
  }
  return values;
}

}  // namespace

double reference_loss(std::span<const LayerSpec> layers, SampleShape input, int classes,
                      std::span<const double> parameters, std::span<const double> images,
                      std::span<const std::int32_t> labels) {
  const auto elements = static_cast<std::size_t>(input.elements());
  double loss = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto image = images.subspan(i * elements, elements);
    const Values logits =
        logits_of(layers, input, classes, parameters, Values(image.begin(), image.end()));
    loss += cross_entropy(logits, static_cast<std::size_t>(labels[i]));
  }
  return loss;
}

}  // namespace evenstep::kernels::test
