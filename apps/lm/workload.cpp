#include "lm/workload.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "common/checks.h"
#include "evenstep/error.h"
#include "evenstep/sampler.h"
#include "kernels/data/tokens.h"

namespace evenstep::train {
namespace {

using kernels::TokenFile;

constexpr const char* kinds[] = {"text", "uint16"};
constexpr int byte_values = 256;
constexpr int uint16_values = 65536;

LmOptions with_vocabulary(LmOptions lm) {
  if (lm.gpt.vocabulary == 0) lm.gpt.vocabulary = lm.tokens == "text" ? byte_values : uint16_values;
  return lm;
}

/// Samples are cut from both parts one behind the other; what is left over is not used.
struct Parts {
  std::int64_t training_tokens, test_tokens;
};

Parts cut(const TokenFile& file, const LmOptions& lm) {
  const auto test = static_cast<std::int64_t>(static_cast<double>(file.size()) * lm.held_out);
  return {file.size() - test, test};
}

/// A sample needs one token more, which its last one predicts.
std::int64_t samples_of(std::int64_t tokens, int context) {
  return tokens > context ? (tokens - 1) / context : 0;
}

void refuse_what_does_not_fit(const Parts& parts, const LmOptions& lm, bool evaluates) {
  const int context = lm.gpt.context;
  if (samples_of(parts.training_tokens, context) == 0)
    throw UsageError(fmt::format(
        "--context is {}, {} has {} tokens to train on, and a sample needs one more than its "
        "context; lower --context",
        context, lm.data, parts.training_tokens));
  if (evaluates && lm.held_out > 0 && samples_of(parts.test_tokens, context) == 0)
    throw UsageError(fmt::format(
        "--context is {}, --held-out {} leaves {} tokens of {} to test on, and a sample needs one "
        "more than its context; lower --context, or take --eval off",
        context, lm.held_out, parts.test_tokens, lm.data));
}

void refuse_heads(const kernels::GptOptions& gpt) {
  if (gpt.width % gpt.heads != 0)
    throw UsageError(fmt::format("--width is {}, which is no multiple of --heads {}; choose one",
                                 gpt.width, gpt.heads));
}

class LmWorkload final : public Workload {
 public:
  LmWorkload(const LmOptions& lm, const Options& options)
      : lm_(lm),
        file_(lm.data, lm.tokens == "text" ? TokenFile::Kind::text : TokenFile::Kind::uint16,
              lm.gpt.vocabulary),
        parts_(cut(file_, lm)),
        samples_(samples_of(parts_.training_tokens, lm.gpt.context)),
        test_samples_(options.evaluate ? samples_of(parts_.test_tokens, lm.gpt.context) : 0),
        sampler_(std::max<std::int64_t>(1, samples_), options.seed),
        window_(static_cast<std::size_t>(lm.gpt.context) + 1) {
    refuse_what_does_not_fit(parts_, lm, options.evaluate);
    kernels::NetworkOptions network;
    network.dtype = dtype_of(lm.dtype);
    network.last_chunk = options.largest_last_chunk.samples;
    network.last_chunk_bytes = options.largest_last_chunk.bytes;
    network_ = kernels::make_gpt(lm.gpt, network);
  }

  std::string name() const override { return "gpt"; }
  std::string dtype() const override { return lm_.dtype; }
  std::string unit() const override {
    return lm_.tokens == "text" ? " nats a byte" : " nats a token";
  }
  std::vector<std::pair<std::string, std::string>> must_agree() const override {
    return {{"data of the checksum", fmt::format("{:08x}", file_.checksum())}};
  }

  kernels::Trainable& model() override { return *network_; }
  void initialise(std::uint64_t seed, std::span<float> parameters) const override {
    kernels::initialise_parameters(network_->parameters(), seed, parameters);
  }

  std::int64_t samples() const override { return samples_; }
  std::int64_t test_samples() const override { return test_samples_; }
  void load(int at, std::int64_t epoch, std::int64_t position) override {
    stage(at, sampler_.at(epoch, position) * lm_.gpt.context);
    network_->sample_keys()[static_cast<std::size_t>(at)] =
        static_cast<std::uint64_t>(epoch * samples_ + position);
  }
  void load_test(int at, std::int64_t index) override {
    stage(at, parts_.training_tokens + index * lm_.gpt.context);
  }

  std::unique_ptr<Prefetcher> start_prefetch(std::int64_t most_samples) override {
    if (!file_.is_mapped()) return nullptr;
    return std::make_unique<Prefetcher>(
        [this](std::int64_t epoch, std::int64_t position, std::span<float> /*out*/) {
          file_.page_in(sampler_.at(epoch, position) * lm_.gpt.context, lm_.gpt.context + 1);
          return 0;
        },
        0, most_samples);
  }

 private:
  /// The tokens from `first` on; the label of each is the next one.
  void stage(int at, std::int64_t first) {
    const auto context = static_cast<std::size_t>(lm_.gpt.context);
    const auto place = static_cast<std::size_t>(at) * context;
    file_.read(first, window_);
    const std::span<const std::int32_t> window(window_);
    std::ranges::copy(window.first(context), network_->tokens().subspan(place).begin());
    std::ranges::copy(window.last(context), network_->labels().subspan(place).begin());
  }

  LmOptions lm_;
  TokenFile file_;
  Parts parts_;
  std::int64_t samples_;
  std::int64_t test_samples_;
  Sampler sampler_;
  std::vector<std::int32_t> window_;
  std::unique_ptr<kernels::Network> network_;
};

}  // namespace

void add_lm_options(CLI::App& app, LmOptions& options) {
  constexpr int most = 65536;
  app.add_option("--data", options.data, "file of text or tokens, plain or gz")->required();
  app.add_option("--tokens", options.tokens,
                 "what they are: bytes of a text, or little-endian 16-bit numbers")
      ->check(one_of(std::span(kinds)));
  app.add_option("--vocabulary", options.gpt.vocabulary,
                 "every token is below it; 0: 256 for a text, 65536 for uint16")
      ->check(whole(0, most));
  app.add_option("--held-out", options.held_out, "part of the data, at its end, to test on")
      ->check(real(0, 0.9));
  app.add_option("--layers", options.gpt.layers, "blocks of attention and two linear layers")
      ->check(whole(1, 1024));
  app.add_option("--heads", options.gpt.heads, "of attention")->check(whole(1, most));
  app.add_option("--width", options.gpt.width, "features of a token")->check(whole(1, most));
  app.add_option("--context", options.gpt.context, "tokens of a sample")->check(whole(1, most));
  add_dtype_option(app, options.dtype);
}

std::unique_ptr<Workload> make_lm_workload(const LmOptions& lm, const Options& options) {
  refuse_heads(lm.gpt);
  return std::make_unique<LmWorkload>(with_vocabulary(lm), options);
}

}  // namespace evenstep::train
