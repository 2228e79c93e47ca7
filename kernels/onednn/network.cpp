// The network on CPUs: builds the layers of a model and runs them in order.
#include "kernels/network.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/models.h"
#include "kernels/onednn/convolution.h"
#include "kernels/onednn/linear.h"
#include "kernels/onednn/loops.h"
#include "kernels/onednn/max_pooling.h"
#include "kernels/onednn/pooled_convolution.h"
#include "kernels/onednn/relu.h"
#include "kernels/onednn/softmax_cross_entropy.h"

namespace evenstep::kernels {
namespace onednn {
namespace {

/// A layer and where its parameters lie in the flat vectors.
struct PlacedLayer {
  std::unique_ptr<Layer> layer;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class OneDnnNetwork : public Network {
 public:
  OneDnnNetwork(std::span<const LayerSpec> layers, const NetworkOptions& options);

  const ChunkMenu& menu() const override { return context_.menu; }
  std::span<const ParameterRange> parameters() const override { return ranges_; }
  std::int64_t parameter_count() const override {
    return ranges_.back().first + ranges_.back().count;
  }
  void load_parameters(std::span<const float> parameters) override;
  std::span<float> images() override;
  std::span<std::int32_t> labels() override { return labels_; }
  LossSums forward(int chunk_size) override;
  void backward(int chunk_size, Pass pass, std::span<float> gradients,
                const GradientReady* ready) override;

 private:
  Tensor make_input();
  std::unique_ptr<Layer> make_layer(const LayerSpec& spec, const Tensor& input, bool last);
  std::size_t add_layer(std::span<const LayerSpec> layers);
  void place_parameters();
  void touch_everything();
  std::size_t index_of(int chunk_size) const;
  void check_count(std::size_t given) const;

  NetworkOptions options_;
  std::vector<ParameterRange> ranges_;
  Context context_;
  GradientRegions gradient_regions_;
  Tensor input_;
  std::vector<PlacedLayer> layers_;
  std::size_t first_trained_ = 0;            // the first layer with parameters
  std::optional<std::size_t> forward_size_;  // of the chunk that forward ran last
  std::unique_ptr<SoftmaxCrossEntropy> loss_;
  std::vector<float> staged_images_;  // bf16 only: fp32 images on their way into input_
  std::vector<std::int32_t> labels_;
};

void check_layers(std::span<const LayerSpec> layers) {
  if (layers.empty() || layers.back().kind != LayerKind::linear || layers.back().outputs != 0) {
    throw std::invalid_argument("a model must end in a linear layer with an output for each class");
  }
}

OneDnnNetwork::OneDnnNetwork(std::span<const LayerSpec> layers, const NetworkOptions& options)
    : options_(options),
      ranges_(parameter_ranges(layers, options.input, options.classes)),
      context_(ChunkMenu(options.largest_chunk), options.dtype),
      gradient_regions_(context_.plan),
      input_(make_input()),
      labels_(static_cast<std::size_t>(context_.menu.largest())) {
  if (context_.dtype == Dtype::bf16) {
    staged_images_.resize(labels_.size() * static_cast<std::size_t>(options.input.elements()));
  }
  check_layers(layers);
  while (!layers.empty()) layers = layers.subspan(add_layer(layers));
  loss_ = std::make_unique<SoftmaxCrossEntropy>(context_, layers_.back().layer->output(),
                                                options.label_smoothing);
  place_parameters();
  context_.plan.commit();
  touch_everything();
}

Tensor OneDnnNetwork::make_input() {
  const SampleShape& shape = options_.input;
  Tensor input;
  input.shape = shape;
  input.values_region = context_.plan.new_region();
  for (int samples : context_.menu.sizes()) {
    const dnnl::memory::desc desc({samples, shape.channels, shape.height, shape.width},
                                  context_.type, dnnl::memory::format_tag::nchw);
    input.add_values(context_.plan, desc);
  }
  return input;
}

/// One layer for the first spec of the list; `last`: the list's only one.
std::unique_ptr<Layer> OneDnnNetwork::make_layer(const LayerSpec& spec, const Tensor& input,
                                                 bool last) {
  const int outputs = spec.outputs == 0 ? options_.classes : spec.outputs;
  switch (spec.kind) {
    case LayerKind::convolution:
      return std::make_unique<Convolution>(context_, gradient_regions_, input, outputs);
    case LayerKind::linear:
      return std::make_unique<Linear>(context_, gradient_regions_, input, outputs, last);
    case LayerKind::max_pooling:
      return std::make_unique<MaxPooling>(context_, gradient_regions_, input);
    case LayerKind::relu:
      break;
  }
  return std::make_unique<Relu>(input);
}

/// Adds a layer for the first spec of `layers`, or for the first two; returns how many.
std::size_t OneDnnNetwork::add_layer(std::span<const LayerSpec> layers) {
  const LayerSpec& spec = layers[0];
  const Tensor input = layers_.empty() ? input_ : layers_.back().layer->output();
  PlacedLayer& placed = layers_.emplace_back();
  for (const ParameterRange& range :
       parameter_ranges(layers.first(1), input.shape, options_.classes)) {
    placed.count += range.count;
  }
  const int outputs = spec.outputs == 0 ? options_.classes : spec.outputs;
  const bool pooled = spec.kind == LayerKind::convolution && layers.size() > 1 &&
                      layers[1].kind == LayerKind::max_pooling &&
                      PooledConvolution::suits(context_, input, outputs);
  if (pooled) {
    placed.layer = std::make_unique<PooledConvolution>(context_, gradient_regions_, input, outputs);
    return 2;
  }
  placed.layer = make_layer(spec, input, layers.size() == 1);
  return 1;
}

/// Parameters lie in the order in which backward fills their gradients.
void OneDnnNetwork::place_parameters() {
  std::int64_t first = 0;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layers_[i].first = first;
    first += layers_[i].count;
    if (layers_[i].count > 0) first_trained_ = i;
  }
}

/// Runs every size once, so that nothing is left for a first step to allocate or fault in.
void OneDnnNetwork::touch_everything() {
  std::vector<float> scratch(static_cast<std::size_t>(parameter_count()));
  load_parameters(scratch);
  for (int size : menu().sizes()) {
    for (const Pass pass : {Pass{true, false}, Pass{false, true}}) {
      forward(size);
      backward(size, pass, scratch, nullptr);
    }
  }
  forward_size_.reset();
}

std::size_t OneDnnNetwork::index_of(int chunk_size) const {
  const auto size = static_cast<unsigned>(chunk_size);
  if (chunk_size < 1 || chunk_size > menu().largest() || !std::has_single_bit(size)) {
    throw std::invalid_argument(
        fmt::format("chunk of {} samples: not on the menu, 1 to {} in powers of two", chunk_size,
                    menu().largest()));
  }
  return static_cast<std::size_t>(std::countr_zero(size));
}

void OneDnnNetwork::load_parameters(std::span<const float> parameters) {
  check_count(parameters.size());
  for (const PlacedLayer& placed : layers_) {
    placed.layer->load(parameters.subspan(static_cast<std::size_t>(placed.first),
                                          static_cast<std::size_t>(placed.count)));
  }
}

std::span<float> OneDnnNetwork::images() {
  if (context_.dtype == Dtype::bf16) return staged_images_;
  return {data<float>(input_.values.back()), static_cast<std::size_t>(input_.counts.back())};
}

LossSums OneDnnNetwork::forward(int chunk_size) {
  const std::size_t size = index_of(chunk_size);
  if (context_.dtype == Dtype::bf16) {
    loops::to_bf16(staged_images_.data(), data<loops::Bf16>(input_.values[size]),
                   input_.counts[size]);
  }
  for (const PlacedLayer& placed : layers_) placed.layer->forward(size);
  forward_size_ = size;
  return loss_->forward(size, std::span(labels_).first(static_cast<std::size_t>(chunk_size)));
}

void OneDnnNetwork::backward(int chunk_size, Pass pass, std::span<float> gradients,
                             const GradientReady* ready) {
  const std::size_t size = index_of(chunk_size);
  if (forward_size_ != size)
    throw std::logic_error("backward of a chunk that forward did not run last");
  if (pass.last) check_count(gradients.size());
  loss_->backward(size);
  for (std::size_t i = layers_.size(); i-- > first_trained_;) {
    const PlacedLayer& placed = layers_[i];
    if (placed.count > 0) {
      const auto own = pass.last ? gradients.subspan(static_cast<std::size_t>(placed.first),
                                                     static_cast<std::size_t>(placed.count))
                                 : std::span<float>();
      placed.layer->backward_parameters(size, pass, own);
      if (pass.last && ready) (*ready)(placed.first, placed.count);
    }
    if (i == first_trained_) break;
    placed.layer->backward_input(size);
    if (pass.last && ready) (*ready)(placed.first + placed.count, 0);
  }
  // In-place layers have left nothing to run backward on again.
  forward_size_.reset();
}

void OneDnnNetwork::check_count(std::size_t given) const {
  if (static_cast<std::int64_t>(given) == parameter_count()) return;
  throw std::invalid_argument(
      fmt::format("{} values given, the network has {} parameters", given, parameter_count()));
}

}  // namespace
}  // namespace onednn

std::unique_ptr<Network> make_network(std::span<const LayerSpec> layers,
                                      const NetworkOptions& options) {
  try {
    return std::make_unique<onednn::OneDnnNetwork>(layers, options);
  } catch (const dnnl::error& error) {
    const bool bf16 = options.dtype == Dtype::bf16;
    throw std::runtime_error(fmt::format("oneDNN cannot build this network on this processor: {}{}",
                                         error.what(),
                                         bf16 ? "; bf16 needs AVX-512 or newer, take f32" : ""));
  }
}

}  // namespace evenstep::kernels
