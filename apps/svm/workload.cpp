#include "svm/workload.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "common/checks.h"
#include "evenstep/error.h"
#include "evenstep/sampler.h"
#include "kernels/data/libsvm.h"
#include "kernels/data/mapped_file.h"
#include "kernels/svm.h"

namespace evenstep::train {
namespace {

kernels::SparseRows read_training(const SvmOptions& svm) {
  if (svm.cache.empty()) return kernels::read_libsvm(svm.data);
  return kernels::read_libsvm_cached(svm.data, svm.cache);
}

class SvmWorkload final : public Workload {
 public:
  SvmWorkload(const SvmOptions& svm, const Options& options)
      : train_(read_training(svm)),
        mapped_(!svm.cache.empty()),
        sampler_(train_.rows(), options.seed),
        model_(train_.columns, static_cast<float>(svm.bias)) {
    if (options.evaluate && !svm.test.empty()) test_ = kernels::read_libsvm_test(svm.test, train_);
  }

  std::string name() const override { return "svm"; }
  std::string dtype() const override { return "f32"; }
  std::vector<std::pair<std::string, std::string>> must_agree() const override {
    return {{"training data of the checksum", fmt::format("{:08x}", checksum(train_))},
            {"test data of the checksum",
             test_.rows() == 0 ? "none" : fmt::format("{:08x}", checksum(test_))}};
  }

  kernels::Trainable& model() override { return model_; }
  void initialise(std::uint64_t /*seed*/, std::span<float> parameters) const override {
    std::ranges::fill(parameters, 0.0F);
  }

  std::int64_t samples() const override { return train_.rows(); }
  std::int64_t test_samples() const override { return test_.rows(); }
  void load(int at, std::int64_t epoch, std::int64_t position) override {
    model_.stage(at, train_, sampler_.at(epoch, position));
  }
  void load_test(int at, std::int64_t index) override { model_.stage(at, test_, index); }

  std::unique_ptr<Prefetcher> start_prefetch(std::int64_t most_samples) override {
    if (!mapped_) return nullptr;
    return std::make_unique<Prefetcher>(
        [this](std::int64_t epoch, std::int64_t position, std::span<float> /*out*/) {
          const auto row = std::as_bytes(train_.row(sampler_.at(epoch, position)));
          kernels::page_in({reinterpret_cast<const std::uint8_t*>(row.data()), row.size()});
          return 0;
        },
        0, most_samples);
  }

 private:
  kernels::SparseRows train_;
  bool mapped_;
  kernels::SparseRows test_;
  Sampler sampler_;
  kernels::LinearSvm model_;
};

}  // namespace

void add_svm_options(CLI::App& app, SvmOptions& options) {
  app.add_option("--data", options.data, "LIBSVM file of the training rows, plain or gz")
      ->required();
  app.add_option("--test", options.test, "LIBSVM file of test rows; may be that of --data");
  app.add_option("--cache", options.cache,
                 "binary copy of --data: written if it is not there or out of date, then mapped");
  app.add_option("--c", options.c, "cost of the loss, as LIBLINEAR's -c: lambda is 1 / (C rows)")
      ->check(real(1e-9, HUGE_VAL));
  app.add_option("--bias", options.bias, "value of a constant feature; 0: none")
      ->check(real(0, HUGE_VAL));
}

std::unique_ptr<Workload> make_svm_workload(const SvmOptions& svm, Options& options) {
  if (options.optimizer.weight_decay != 0)
    throw UsageError("--weight-decay: an SVM's is 1 / (C rows); give --c instead");
  auto workload = std::make_unique<SvmWorkload>(svm, options);
  options.optimizer.weight_decay = 1 / (svm.c * static_cast<double>(workload->samples()));
  return workload;
}

}  // namespace evenstep::train
