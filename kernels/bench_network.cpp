// Times whole training steps (load images, forward, backward, plain SGD) of a model on one thread
// or more, on Fashion-MNIST, or of a GPT of the usual sizes on any tokens: what
// scripts/compare_pytorch puts beside PyTorch.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "evenstep/optimizer.h"
#include "kernels/data/idx.h"
#include "kernels/gpt.h"
#include "kernels/hash.h"
#include "kernels/network.h"

namespace evenstep::kernels {
namespace {

struct BenchOptions {
  NetworkOptions network;
  std::string data = "/usr/share/datasets/fashion-mnist";
  int batch = 128;
  double seconds = 3;
  int threads = 1;
};

[[noreturn]] void wrong_use(const std::string& what) {
  fmt::print(stderr,
             "error: {}; usage: evenstep-bench-network [--model NAME] [--dtype f32|bf16] "
             "[--batch B] [--chunk LARGEST] [--last-chunk LARGEST] [--seconds S] [--threads T] "
             "[--data DIR]\n",
             what);
  std::exit(2);
}

Dtype parse_dtype(const std::string& text) {
  if (text == "f32") return Dtype::f32;
  if (text == "bf16") return Dtype::bf16;
  wrong_use(fmt::format("--dtype {}: must be f32 or bf16", text));
}

void set_option(BenchOptions& options, const std::string& name, const std::string& value) {
  if (name == "--model")
    options.network.model = value;
  else if (name == "--dtype")
    options.network.dtype = parse_dtype(value);
  else if (name == "--batch")
    options.batch = std::stoi(value);
  else if (name == "--chunk")
    options.network.largest_chunk = std::stoi(value);
  else if (name == "--last-chunk")
    options.network.last_chunk = std::stoi(value);
  else if (name == "--seconds")
    options.seconds = std::stod(value);
  else if (name == "--threads")
    options.threads = std::stoi(value);
  else if (name == "--data")
    options.data = value;
  else
    wrong_use(fmt::format("unknown option {}", name));
}

BenchOptions parse(int argc, char** argv) {
  BenchOptions options;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) wrong_use(fmt::format("{} needs a value", argv[i]));
    set_option(options, argv[i], argv[i + 1]);
  }
  if (options.batch < 1 || options.threads < 1)
    wrong_use("--batch and --threads must be at least 1");
  return options;
}

/// Writes the next `size` samples.
using Stage = std::function<void(Network& network, int size)>;

Stage stage_images(const BenchOptions& options) {
  const auto data = std::make_shared<const Dataset>(read_idx_train(options.data));
  const Normaliser normaliser(pixel_statistics(*data));
  return [data, normaliser, position = std::int64_t{0}](Network& network, int size) mutable {
    const auto elements = static_cast<std::size_t>(data->shape.elements());
    for (std::size_t at = 0; at < static_cast<std::size_t>(size); ++at) {
      normaliser.write(data->image(position), network.images().subspan(at * elements, elements));
      network.labels()[at] = data->labels[static_cast<std::size_t>(position)];
      position = (position + 1) % data->samples();
    }
  };
}

Stage stage_tokens(int vocabulary) {
  return [vocabulary, position = std::uint64_t{0}](Network& network, int size) mutable {
    const auto next = [&] {
      return static_cast<std::int32_t>(mix64(++position) % static_cast<unsigned>(vocabulary));
    };
    const auto targets = static_cast<std::size_t>(size * network.targets());
    std::ranges::generate(network.tokens().first(targets), next);
    std::ranges::generate(network.labels().first(targets), next);
  };
}

/// One replica that trains on successive batches.
class Trainer {
 public:
  Trainer(int batch, std::unique_ptr<Network> network, Stage stage)
      : batch_(batch),
        network_(std::move(network)),
        stage_(std::move(stage)),
        parameters_(static_cast<std::size_t>(network_->parameter_count())),
        gradients_(parameters_.size()),
        optimizer_({.momentum = 0}, network_->trained_count()) {
    initialise_parameters(network_->parameters(), 1, parameters_);
  }

  /// Mean loss of the batch before the update.
  double step() {
    network_->load_parameters(parameters_);
    LossSums sums;
    std::int64_t done = 0;
    network_->menu().for_each_chunk(batch_, network_->menu().largest(), [&](int size) {
      stage_(*network_, size);
      sums.loss += network_->forward(size).loss;
      done += size;
      network_->backward(size, {done == size, done == batch_}, gradients_, nullptr);
    });
    const auto targets = batch_ * network_->targets();
    update(1 / static_cast<float>(targets));
    return sums.loss / static_cast<double>(targets);
  }

 private:
  void update(float scale) {
    const auto trained = static_cast<std::size_t>(network_->trained_count());
    const std::span<float> parameters(parameters_);
    const std::span<const float> sums(gradients_);
    optimizer_.step(parameters.first(trained), sums.first(trained), 0.05, scale);
    move_averages(parameters.subspan(trained), sums.subspan(trained), average_rate, scale);
  }

  int batch_;
  std::unique_ptr<Network> network_;
  Stage stage_;
  std::vector<float> parameters_, gradients_;
  Optimizer optimizer_;
};

Trainer make_trainer(const BenchOptions& options) {
  if (options.network.model != "gpt")
    return {options.batch, make_network(options.network), stage_images(options)};
  const GptOptions gpt;
  return {options.batch, make_gpt(gpt, options.network), stage_tokens(gpt.vocabulary)};
}

void run(const BenchOptions& options) {
  omp_set_num_threads(options.threads);
  Trainer trainer = make_trainer(options);
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 5; ++i) trainer.step();
  const auto start = Clock::now();
  const std::clock_t cpu_start = std::clock();
  std::chrono::duration<double> elapsed{};
  std::int64_t steps = 0;
  double loss = 0;
  while (elapsed.count() < options.seconds) {
    loss = trainer.step();
    ++steps;
    elapsed = Clock::now() - start;
  }
  const auto samples = static_cast<double>(steps * options.batch);
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  fmt::print(
      "{{\"samples_per_second\": {:.1f}, \"samples_per_cpu_second\": {:.1f}, \"steps\": {}, "
      "\"final_loss\": {:.4f}}}\n",
      samples / elapsed.count(), samples / cpu_seconds, steps, loss);
}

}  // namespace
}  // namespace evenstep::kernels

int main(int argc, char** argv) {
  try {
    evenstep::kernels::run(evenstep::kernels::parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
