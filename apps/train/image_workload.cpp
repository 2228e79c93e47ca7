#include "train/image_workload.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "common/checks.h"
#include "evenstep/error.h"
#include "evenstep/sampler.h"
#include "kernels/data/image_loader.h"
#include "kernels/data/images.h"
#include "kernels/data/synthetic.h"
#include "kernels/models.h"
#include "training/options.h"

namespace evenstep::train {
namespace {

std::string check_model(const std::string& name) {
  if (name == "gpt") return "'gpt' is trained by evenstep-lm";
  return one_of(kernels::model_names())(name);
}

constexpr std::string_view synthetic = "synthetic";
constexpr std::size_t most_prefetched_bytes = 128 << 20;  // of a step
constexpr std::int64_t synthetic_test_samples = 1000;

struct Images {
  std::unique_ptr<kernels::ImageSource> train;
  std::unique_ptr<kernels::ImageSource> test;  // null: not wanted
};

void refuse_other_shape(kernels::SampleShape test, kernels::SampleShape train) {
  if (test.height != train.height || test.width != train.width)
    throw Error(fmt::format(
        "the test images have {}x{} pixels, the training images {}x{}; they must belong together",
        test.height, test.width, train.height, train.width));
}

Images read_images(const std::string& directory, bool with_test) {
  Images images{kernels::stored_images(kernels::read_training_images(directory)), nullptr};
  if (!with_test) return images;
  images.test = kernels::stored_images(kernels::read_test_images(directory));
  refuse_other_shape(images.test->shape(), images.train->shape());
  return images;
}

/// The test images are those that follow the training images.
Images make_images(const std::string& model, std::uint64_t seed, bool with_test) {
  const kernels::Model& published = kernels::find_model(model);
  const auto make = [&](std::int64_t first, std::int64_t samples) {
    return std::make_unique<kernels::SyntheticImages>(published.input, published.classes, seed,
                                                      first, samples);
  };
  const std::int64_t samples = kernels::usual_samples(published.input);
  return {make(0, samples), with_test ? make(samples, synthetic_test_samples) : nullptr};
}

class ImageWorkload final : public Workload {
 public:
  ImageWorkload(const ImageOptions& options, Images images, std::uint64_t seed,
                LastChunk last_chunk)
      : options_(options),
        images_(std::move(images)),
        loader_(train(), seed, augments(options)),
        sampler_(train().samples(), seed),
        bytes_(elements()) {
    network_ = kernels::make_network({.model = options.model,
                                      .dtype = dtype_of(options.dtype),
                                      .input = train().shape(),
                                      .classes = train().classes(),
                                      .label_smoothing = options.label_smoothing,
                                      .seed = seed,
                                      .last_chunk = last_chunk.samples,
                                      .last_chunk_bytes = last_chunk.bytes});
  }

  std::string name() const override { return options_.model; }
  std::string dtype() const override { return options_.dtype; }
  std::vector<std::pair<std::string, std::string>> must_agree() const override {
    return {{"training data of the checksum", fmt::format("{:08x}", train().checksum())},
            {"test data of the checksum",
             images_.test ? fmt::format("{:08x}", images_.test->checksum()) : "none"}};
  }

  kernels::Trainable& model() override { return *network_; }
  void initialise(std::uint64_t seed, std::span<float> parameters) const override {
    kernels::initialise_parameters(network_->parameters(), seed, parameters);
  }

  std::int64_t samples() const override { return train().samples(); }
  std::int64_t test_samples() const override { return images_.test ? images_.test->samples() : 0; }
  void load(int at, std::int64_t epoch, std::int64_t position) override {
    int& label = network_->labels()[static_cast<std::size_t>(at)];
    const auto ahead =
        prefetcher_ != nullptr ? prefetcher_->find(epoch, position) : Prefetcher::Sample();
    if (ahead.input.empty()) {
      label = decode(epoch, position, bytes_, image(at));
    } else {
      std::ranges::copy(ahead.input, image(at).begin());
      label = ahead.label;
    }
    network_->sample_keys()[static_cast<std::size_t>(at)] =
        static_cast<std::uint64_t>(epoch * samples() + position);
  }
  void load_test(int at, std::int64_t index) override {
    loader_.load_plain(*images_.test, index, bytes_, image(at));
    network_->labels()[static_cast<std::size_t>(at)] = images_.test->label(index);
  }

  std::unique_ptr<Prefetcher> start_prefetch(std::int64_t most_samples) override {
    loader_bytes_.resize(elements());
    const auto room = static_cast<std::int64_t>(most_prefetched_bytes / sizeof(float) / elements());
    auto prefetcher = std::make_unique<Prefetcher>(
        [this](std::int64_t epoch, std::int64_t position, std::span<float> out) {
          return decode(epoch, position, loader_bytes_, out);
        },
        elements(), std::clamp<std::int64_t>(room, 1, most_samples));
    prefetcher_ = prefetcher.get();
    return prefetcher;
  }

 private:
  const kernels::ImageSource& train() const { return *images_.train; }
  std::size_t elements() const { return static_cast<std::size_t>(train().shape().elements()); }
  bool augments(const ImageOptions& options) const {
    return options.augment == "on" || (options.augment == "auto" && train().usually_augmented());
  }
  int decode(std::int64_t epoch, std::int64_t position, std::span<std::uint8_t> scratch,
             std::span<float> out) const {
    const std::int64_t sample = sampler_.at(epoch, position);
    loader_.load(epoch, sample, scratch, out);
    return train().label(sample);
  }
  std::span<float> image(int at) {
    return network_->images().subspan(static_cast<std::size_t>(at) * elements(), elements());
  }

  ImageOptions options_;
  Images images_;
  kernels::ImageLoader loader_;
  Sampler sampler_;
  std::vector<std::uint8_t> bytes_;         // of one image
  std::vector<std::uint8_t> loader_bytes_;  // likewise, for the prefetcher's thread
  std::unique_ptr<kernels::Network> network_;
  const Prefetcher* prefetcher_ = nullptr;  // the trainer's
};

}  // namespace

void add_image_options(CLI::App& app, ImageOptions& options) {
  app.add_option("--model", options.model, "network to train")->check(check_model);
  app.add_option("--data", options.data,
                 "folder of IDX (MNIST, Fashion-MNIST) or binary CIFAR files, plain or gz; or "
                 "synthetic: made-up images of the shape that the model was published for");
  app.add_option("--augment", options.augment,
                 "train on random crops and mirror images; auto: of CIFAR")
      ->check(one_of(std::span(auto_on_off)));
  add_dtype_option(app, options.dtype);
  app.add_option("--label-smoothing", options.label_smoothing,
                 "part of each target that is spread over all classes")
      ->check(real(0, 1));
}

std::unique_ptr<Workload> make_image_workload(const ImageOptions& options, std::uint64_t seed,
                                              bool with_test, LastChunk last_chunk) {
  Images images = options.data == synthetic ? make_images(options.model, seed, with_test)
                                            : read_images(options.data, with_test);
  return std::make_unique<ImageWorkload>(options, std::move(images), seed, last_chunk);
}

}  // namespace evenstep::train
