#include "train/image_workload.h"

#include <fmt/format.h>
#include <zlib.h>

#include "common/checks.h"
#include "evenstep/error.h"
#include "evenstep/sampler.h"
#include "kernels/data/images.h"

namespace evenstep::train {
namespace {

constexpr const char* models_to_come[] = {"gpt"};

constexpr const char* dtypes[] = {"f32", "bf16"};

std::string checksum(const kernels::Dataset& data) {
  auto sum = crc32(0, data.labels.data(), static_cast<uInt>(data.labels.size()));
  sum = crc32_z(sum, data.pixels.data(), data.pixels.size());
  return fmt::format("{:08x}", sum);
}

void refuse_other_shape(const kernels::Dataset& test, const kernels::Dataset& train) {
  if (test.shape.height != train.shape.height || test.shape.width != train.shape.width)
    throw Error(fmt::format(
        "the test images have {}x{} pixels, the training images {}x{}; they must belong together",
        test.shape.height, test.shape.width, train.shape.height, train.shape.width));
}

class ImageWorkload final : public Workload {
 public:
  ImageWorkload(const ImageOptions& options, std::uint64_t seed, bool with_test, int last_chunk)
      : options_(options),
        train_(kernels::read_training_images(options.data)),
        test_(with_test ? kernels::read_test_images(options.data) : kernels::Dataset()),
        normaliser_(kernels::pixel_statistics(train_)),
        sampler_(train_.samples(), seed) {
    if (with_test) refuse_other_shape(test_, train_);
    const auto dtype = options.dtype == "bf16" ? kernels::Dtype::bf16 : kernels::Dtype::f32;
    network_ = kernels::make_network({.model = options.model,
                                      .dtype = dtype,
                                      .input = train_.shape,
                                      .classes = train_.classes,
                                      .label_smoothing = options.label_smoothing,
                                      .seed = seed,
                                      .last_chunk = last_chunk});
  }

  std::string name() const override { return options_.model; }
  std::string dtype() const override { return options_.dtype; }
  std::vector<std::pair<std::string, std::string>> must_agree() const override {
    return {{"training data of the checksum", checksum(train_)},
            {"test data of the checksum", checksum(test_)}};
  }

  kernels::Trainable& model() override { return *network_; }
  void initialise(std::uint64_t seed, std::span<float> parameters) const override {
    kernels::initialise_parameters(network_->parameters(), seed, parameters);
  }

  std::int64_t samples() const override { return train_.samples(); }
  std::int64_t test_samples() const override { return test_.samples(); }
  void load(int at, std::int64_t epoch, std::int64_t position) override {
    stage(train_, at, sampler_.at(epoch, position));
    network_->sample_keys()[static_cast<std::size_t>(at)] =
        static_cast<std::uint64_t>(epoch * train_.samples() + position);
  }
  void load_test(int at, std::int64_t index) override { stage(test_, at, index); }

 private:
  void stage(const kernels::Dataset& data, int at, std::int64_t index) {
    const auto size = static_cast<std::size_t>(data.shape.elements());
    const auto place = static_cast<std::size_t>(at);
    normaliser_.write(data, index, network_->images().subspan(place * size, size));
    network_->labels()[place] = data.labels[static_cast<std::size_t>(index)];
  }

  ImageOptions options_;
  kernels::Dataset train_;
  kernels::Dataset test_;
  kernels::Normaliser normaliser_;
  Sampler sampler_;
  std::unique_ptr<kernels::Network> network_;
};

}  // namespace

void add_image_options(CLI::App& app, ImageOptions& options) {
  app.add_option("--model", options.model, "network to train")
      ->check(one_of(kernels::model_names(), models_to_come));
  app.add_option("--data", options.data,
                 "folder of IDX (MNIST, Fashion-MNIST) or binary CIFAR files, plain or gz");
  app.add_option("--dtype", options.dtype, "what layers compute in; master weights are f32")
      ->check(one_of(std::span(dtypes)));
  app.add_option("--label-smoothing", options.label_smoothing,
                 "part of each target that is spread over all classes")
      ->check(real(0, 1));
}

std::unique_ptr<Workload> make_image_workload(const ImageOptions& options, std::uint64_t seed,
                                              bool with_test, int last_chunk) {
  return std::make_unique<ImageWorkload>(options, seed, with_test, last_chunk);
}

}  // namespace evenstep::train
