// The network on CPUs: builds the layers of a model and runs them in order.
#include "kernels/network.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/layers.h"
#include "kernels/onednn/builder.h"
#include "kernels/onednn/loops.h"
#include "kernels/onednn/softmax_cross_entropy.h"
#include "kernels/profile.h"

namespace evenstep::kernels {
namespace onednn {
namespace {

class OneDnnNetwork : public Network {
 public:
  OneDnnNetwork(std::span<const LayerSpec> layers, const NetworkOptions& options);

  const ChunkMenu& menu() const override { return context_.menu; }
  std::span<const ParameterRange> parameters() const override { return ranges_; }
  std::int64_t parameter_count() const override {
    return ranges_.back().first + ranges_.back().count;
  }
  std::int64_t trained_count() const override;
  std::int64_t forward_flops() const override { return forward_flops_; }
  std::int64_t targets() const override { return targets_; }
  int granule() const override { return context_.granule; }
  void load_parameters(std::span<const float> parameters) override;
  std::span<float> images() override { return images_; }
  std::span<std::int32_t> tokens() override { return context_.tokens; }
  std::span<std::int32_t> labels() override { return labels_; }
  std::span<std::uint64_t> sample_keys() override { return context_.sample_keys; }
  LossSums forward(int chunk_size) override;
  LossSums evaluate(int chunk_size) override;
  void backward(int chunk_size, Pass pass, std::span<float> gradients,
                const GradientReady* ready) override;
  Profile make_profile() const override;
  void set_profile(Profile* profile) override { profile_ = profile; }

 private:
  Tensor make_input();
  void allocate(bool of_tokens);
  /// How a chunk runs: `count` times the same size of the menu, by its index.
  struct Pieces {
    std::size_t size;
    std::size_t count;
    Pass pass_of(std::size_t piece, Pass pass) const {
      return {pass.first && piece == 0, pass.last && piece + 1 == count};
    }
  };

  LossSums run(int chunk_size, void (Layer::*step)(std::size_t));
  LossSums run_piece(std::size_t size, std::size_t piece, void (Layer::*step)(std::size_t));
  std::size_t backward_phase(std::size_t end, Pieces pieces, Pass pass, std::span<float> gradients);
  void backward_loss(std::size_t size, std::size_t piece);
  void backward_layer(std::size_t index, std::size_t size, Pass pass, std::span<float> gradients);
  void sum_averages(Pieces pieces, Pass pass, std::span<float> gradients);
  void add_parts(const PlacedLayer& placed, std::size_t size) const;
  void touch_everything();
  void start_lap() const;
  void lap(std::size_t row, Profile::Part part) const;
  Pieces pieces_of(int chunk_size) const;
  std::size_t first_sample(std::size_t piece) const {
    return piece * static_cast<std::size_t>(menu().usual());
  }
  std::size_t place_of(std::size_t piece) const { return cut_ ? piece : MemoryPlan::whole_chunk; }
  void select(const PlacedLayer& placed, std::size_t piece);
  void check_count(std::size_t given) const;

  NetworkOptions options_;
  std::vector<ParameterRange> ranges_;
  Context context_;
  Tensor input_;
  std::vector<PlacedLayer> layers_;
  std::int64_t forward_flops_ = 0;
  std::int64_t targets_ = 1;
  bool loaded_ = false;    // parameters
  bool cut_ = false;       // whether the chunk runs in several pieces
  int forward_chunk_ = 0;  // size of the chunk that forward ran last, 0: not usable
  std::unique_ptr<SoftmaxCrossEntropy> loss_;
  std::span<float> images_;
  std::vector<float> staged_images_;  // bf16 only: fp32 images on their way into input_
  std::vector<std::int32_t> labels_;
  Profile* profile_ = nullptr;
};

/// Samples that batch norm takes together: enough for good statistics, few enough to balance by.
constexpr int norm_group = 16;

void check_layers(std::span<const LayerSpec> layers) {
  const auto kind = layers.empty() ? LayerKind::relu : layers.back().kind;
  const bool linear = kind == LayerKind::linear || kind == LayerKind::token_linear ||
                      kind == LayerKind::tied_linear;
  if (!linear || layers.back().outputs != 0) {
    throw std::invalid_argument("a model must end in a linear layer with an output for each class");
  }
}

OneDnnNetwork::OneDnnNetwork(std::span<const LayerSpec> layers, const NetworkOptions& options)
    : options_(options),
      ranges_(parameter_ranges(layers, options.input, options.classes)),
      context_(ChunkMenu(options.largest_chunk, options.last_chunk), options.dtype),
      input_(make_input()) {
  check_layers(layers);
  const std::vector<Node> nodes = make_graph(layers, options.input, options.classes);
  for (const Node& node : nodes) {
    forward_flops_ += kernels::forward_flops(node);
    if (node.spec.kind == LayerKind::batch_norm)
      context_.granule = std::min(norm_group, context_.menu.usual());
  }
  context_.seed = options.seed;
  layers_ = build_layers(context_, nodes, input_);
  const Tensor& logits = layers_.back().layer->output();
  targets_ = logits.shape.elements() / options.classes;
  loss_ = std::make_unique<SoftmaxCrossEntropy>(context_, logits, options.label_smoothing);
  allocate(nodes[0].spec.kind == LayerKind::embedding);
  touch_everything();
}

void OneDnnNetwork::allocate(bool of_tokens) {
  const int usual = menu().usual();
  const auto pieces = static_cast<std::size_t>(menu().largest() / usual);
  const std::size_t fit = context_.plan.commit(pieces, options_.last_chunk_bytes);
  context_.menu = ChunkMenu(usual, static_cast<int>(fit) * usual);
  const auto samples = static_cast<std::size_t>(menu().largest());
  labels_.resize(samples * static_cast<std::size_t>(targets_));
  context_.sample_keys.resize(samples);
  if (of_tokens) context_.tokens.resize(samples * static_cast<std::size_t>(options_.input.height));
  const std::size_t elements = samples * static_cast<std::size_t>(options_.input.elements());
  if (context_.dtype == Dtype::bf16) {
    staged_images_.resize(elements);
    images_ = staged_images_;
  } else {
    images_ = {data<float>(input_.values.back()), elements};
  }
}

Tensor OneDnnNetwork::make_input() {
  const SampleShape& shape = options_.input;
  Tensor input;
  input.shape = shape;
  input.values_region = context_.plan.new_region();
  context_.plan.keep(input.values_region);
  for (int samples : context_.menu.sizes()) {
    const dnnl::memory::desc desc({samples, shape.channels, shape.height, shape.width},
                                  context_.type, dnnl::memory::format_tag::nchw);
    input.add_values(context_.plan, desc);
  }
  return input;
}

/// Runs a share of a chunk of every size, so that nothing is left for a first step to allocate or
/// fault in. On parameters that go: it ends as if none had been loaded.
void OneDnnNetwork::touch_everything() {
  const std::vector<float> parameters(static_cast<std::size_t>(parameter_count()));
  std::vector<float> gradients(parameters.size());
  load_parameters(parameters);
  std::vector<int> sizes(menu().sizes().begin(), menu().sizes().end());
  if (menu().largest() > menu().usual()) sizes.push_back(menu().largest());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    forward(sizes[i]);
    backward(sizes[i], {i == 0, i + 1 == sizes.size()}, gradients, nullptr);
  }
  loaded_ = false;
}

OneDnnNetwork::Pieces OneDnnNetwork::pieces_of(int chunk_size) const {
  const int usual = menu().usual();
  const auto samples = static_cast<unsigned>(chunk_size);
  if (chunk_size >= 1 && chunk_size <= usual && std::has_single_bit(samples))
    return {static_cast<std::size_t>(std::countr_zero(samples)), 1};
  if (chunk_size > usual && chunk_size <= menu().largest() && chunk_size % usual == 0)
    return {menu().sizes().size() - 1, static_cast<std::size_t>(chunk_size / usual)};
  throw std::invalid_argument(
      fmt::format("chunk of {} samples: not on the menu, 1 to {} in powers of two and on to {} in "
                  "multiples of that",
                  chunk_size, usual, menu().largest()));
}

/// All that the layer works on is this piece's.
void OneDnnNetwork::select(const PlacedLayer& placed, std::size_t piece) {
  context_.first_sample = first_sample(piece);
  for (MemoryPlan::Region region : placed.regions) context_.plan.select(region, place_of(piece));
}

/// The part of a flat vector that begins at `first`.
template <typename T>
std::span<T> part(std::span<T> flat, std::int64_t first, std::int64_t count) {
  return flat.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

std::int64_t OneDnnNetwork::trained_count() const {
  std::int64_t count = 0;
  for (const PlacedLayer& placed : layers_) count += placed.count;
  return count;
}

void OneDnnNetwork::load_parameters(std::span<const float> parameters) {
  check_count(parameters.size());
  for (const PlacedLayer& placed : layers_) {
    placed.layer->load(part(parameters, placed.first, placed.count));
    if (placed.averages_count > 0)
      placed.layer->load_averages(part(parameters, placed.averages_first, placed.averages_count));
  }
  loaded_ = true;
}

LossSums OneDnnNetwork::forward(int chunk_size) {
  const LossSums sums = run(chunk_size, &Layer::forward);
  forward_chunk_ = chunk_size;
  return sums;
}

LossSums OneDnnNetwork::evaluate(int chunk_size) {
  forward_chunk_ = 0;
  return run(chunk_size, &Layer::evaluate);
}

LossSums OneDnnNetwork::run(int chunk_size, void (Layer::*step)(std::size_t)) {
  const Pieces pieces = pieces_of(chunk_size);
  if (!loaded_) throw std::logic_error("a chunk before load_parameters");
  cut_ = pieces.count > 1;
  start_lap();
  LossSums sums;
  for (std::size_t piece = 0; piece < pieces.count; ++piece) {
    const LossSums own = run_piece(pieces.size, piece, step);
    sums.loss += own.loss;
    sums.correct += own.correct;
  }
  return sums;
}

LossSums OneDnnNetwork::run_piece(std::size_t size, std::size_t piece,
                                  void (Layer::*step)(std::size_t)) {
  const std::size_t first = first_sample(piece);
  if (context_.dtype == Dtype::bf16) {
    context_.plan.select(input_.values_region, place_of(piece));
    loops::to_bf16(
        staged_images_.data() + first * static_cast<std::size_t>(options_.input.elements()),
        data<loops::Bf16>(input_.values[size]), input_.counts[size]);
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    select(layers_[i], piece);
    (layers_[i].layer.get()->*step)(size);
    lap(i, Profile::Part::forward);
  }
  const auto targets = static_cast<std::size_t>(menu().sizes()[size] * targets_);
  const std::size_t first_target = first * static_cast<std::size_t>(targets_);
  const LossSums sums = loss_->forward(size, std::span(labels_).subspan(first_target, targets));
  lap(layers_.size(), Profile::Part::forward);
  return sums;
}

void OneDnnNetwork::backward(int chunk_size, Pass pass, std::span<float> gradients,
                             const GradientReady* ready) {
  const Pieces pieces = pieces_of(chunk_size);
  if (forward_chunk_ != chunk_size)
    throw std::logic_error("backward of a chunk that forward did not run last");
  if (pass.last) check_count(gradients.size());
  context_.ready = pass.last ? ready : nullptr;
  context_.final_gradients = 0;
  start_lap();
  for (std::size_t end = layers_.size(); end > 0;)
    end = backward_phase(end, pieces, pass, gradients);
  sum_averages(pieces, pass, gradients);
  if (profile_) profile_->count(chunk_size);
  // In-place layers have left nothing to run backward on again.
  forward_chunk_ = 0;
}

void OneDnnNetwork::start_lap() const {
  if (profile_) profile_->start();
}

void OneDnnNetwork::lap(std::size_t row, Profile::Part part) const {
  if (profile_) profile_->lap(row, part);
}

Profile OneDnnNetwork::make_profile() const {
  std::vector<Profile::Row> rows;
  for (const PlacedLayer& placed : layers_) {
    const int products = placed.passes_gradients ? 2 : 1;
    rows.push_back({.layer = placed.name,
                    .forward_flops = placed.forward_flops,
                    .backward_flops = products * placed.forward_flops});
  }
  rows.push_back({.layer = "loss"});
  return Profile(std::move(rows));
}

/// All pieces through the layers before `end` as far as one that ends a phase, whose index is
/// returned.
std::size_t OneDnnNetwork::backward_phase(std::size_t end, Pieces pieces, Pass pass,
                                          std::span<float> gradients) {
  std::size_t begin = end - 1;
  while (!layers_[begin].ends_phase) --begin;
  for (std::size_t piece = 0; piece < pieces.count; ++piece) {
    if (end == layers_.size()) backward_loss(pieces.size, piece);
    for (std::size_t i = end; i-- > begin;) {
      select(layers_[i], piece);
      backward_layer(i, pieces.size, pieces.pass_of(piece, pass), gradients);
    }
  }
  return begin;
}

void OneDnnNetwork::backward_loss(std::size_t size, std::size_t piece) {
  select(layers_.back(), piece);
  loss_->backward(size);
  lap(layers_.size(), Profile::Part::backward);
}

void OneDnnNetwork::backward_layer(std::size_t index, std::size_t size, Pass pass,
                                   std::span<float> gradients) {
  const PlacedLayer& placed = layers_[index];
  const auto tell = [&](std::int64_t count) {
    lap(index, Profile::Part::backward);
    if (context_.ready != nullptr) (*context_.ready)(context_.final_gradients, count);
    context_.final_gradients += count;
    start_lap();  // what `ready` took is communication
  };
  if (placed.trains) {
    const auto own = pass.last ? part(gradients, placed.first, placed.count) : std::span<float>();
    placed.layer->backward_parameters(size, pass, own);
    tell(pass.last ? placed.count : 0);
  }
  if (!placed.passes_gradients) return;
  placed.layer->backward_input(size);
  add_parts(placed, size);
  tell(0);
}

void OneDnnNetwork::sum_averages(Pieces pieces, Pass pass, std::span<float> gradients) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const PlacedLayer& placed = layers_[i];
    if (placed.averages_count == 0) continue;
    const auto own = pass.last ? part(gradients, placed.averages_first, placed.averages_count)
                               : std::span<float>();
    for (std::size_t piece = 0; piece < pieces.count; ++piece) {
      select(placed, piece);
      placed.layer->sum_averages(pieces.size, pieces.pass_of(piece, pass), own);
    }
  }
  const std::int64_t first = trained_count();
  if (context_.ready != nullptr && first < parameter_count())
    (*context_.ready)(first, parameter_count() - first);
}

void OneDnnNetwork::add_parts(const PlacedLayer& placed, std::size_t size) const {
  for (const auto& [part, sum] : placed.parts) {
    const dnnl::memory& from = part.gradients[size];
    const dnnl::memory& to = sum.gradients[size];
    if (context_.dtype == Dtype::f32) {
      loops::add(data<float>(from), data<float>(to), sum.counts[size]);
    } else {
      loops::add(data<loops::Bf16>(from), data<loops::Bf16>(to), sum.counts[size]);
    }
  }
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
