// The seam between compute backends and the training programs: kernels/onednn implements it on
// CPUs, kernels/cuda will on GPUs. A network is a static list of layers with explicit forward and
// backward. It computes; it knows nothing of ranks, batches, optimizers or communication.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/chunk_menu.h"

namespace evenstep::kernels {

/// Element type that layers compute in. Master weights and gradients are fp32 in either case.
enum class Dtype { f32, bf16 };

/// Shape of one input sample: channels, height, width.
struct SampleShape {
  int channels = 1;
  int height = 28;
  int width = 28;
  std::int64_t elements() const { return std::int64_t{channels} * height * width; }
  bool operator==(const SampleShape&) const = default;
};

struct NetworkOptions {
  std::string model = "cnn";  ///< one of model_names()
  Dtype dtype = Dtype::f32;
  SampleShape input;
  int classes = 10;
  /// Part of each target that is spread over all classes evenly (Szegedy et al. 2016), in [0, 1].
  double label_smoothing = 0;
  std::uint64_t seed = 1;  ///< of dropout
  int largest_chunk = 0;   ///< usual one, in samples; 0: the model's own measured default
  int last_chunk = 1;      ///< samples up to which a share's last chunk may be larger, as far as
  std::size_t last_chunk_bytes = SIZE_MAX;  ///< its activations and their gradients are no more
};

/// How a parameter starts. `size`: uniform in +-size, normal with this deviation, or the value.
struct InitialValue {
  enum class Kind { uniform, normal, constant };
  Kind kind = Kind::uniform;
  double size = 0;
};

/// Where one parameter tensor lies in the flat parameter and gradient vectors.
struct ParameterRange {
  std::string name;    ///< such as "conv2.weight"
  std::int64_t first;  ///< in elements
  std::int64_t count;
  std::vector<std::int64_t>
      shape;            ///< as PyTorch has it: OIHW for convolutions, out x in for linear
  std::int64_t fan_in;  ///< inputs that one output sums over
  InitialValue start = {};
  bool trained = true;  ///< false: a running average of batch norm
};

/// Sums over the targets of one chunk, never means: averaging is done after the all-reduce.
struct LossSums {
  double loss = 0;           ///< cross-entropy, nats
  std::int64_t correct = 0;  ///< targets whose largest output is their label
};

/// Called in backward of the last chunk, as soon as gradients [first, first + count) are final.
/// Ranges come in ascending order of `first`, since parameters lie in the order backward fills. In
/// between, with a count of 0, whenever a layer is done: a moment to move communication along.
using GradientReady = std::function<void(std::int64_t first, std::int64_t count)>;

class Profile;

/// One rank's replica of what is trained, whatever its samples look like. Not thread safe. All
/// calls are local and return when done.
///
/// Parameters and gradients are flat fp32 vectors in plain layouts, the same on every machine
/// (never a blocked layout that depends on the instruction set), ordered as backward fills them:
/// the last layer's first. Behind them come the running averages of batch norm, if any: their
/// "gradients" are sums of statistics, each times its samples, so that averaging over the global
/// batch gives the statistic that the running average is to move towards.
///
/// No call but the constructor creates a primitive or allocates memory.
class Trainable {
 public:
  virtual ~Trainable() = default;

  virtual const ChunkMenu& menu() const = 0;
  virtual std::span<const ParameterRange> parameters() const = 0;
  /// Elements of the flat vectors, and how many of them, the first ones, are trained.
  virtual std::int64_t parameter_count() const = 0;
  virtual std::int64_t trained_count() const = 0;
  /// Of one sample, in convolutions and linear layers: two for each multiplication.
  virtual std::int64_t forward_flops() const = 0;
  /// Predictions of one sample, each of which counts in losses and averages: of a sequence, tokens.
  virtual std::int64_t targets() const { return 1; }
  /// Samples that batch norm takes together, 1 without it. A share must be a multiple of it, but
  /// for a rest of the global batch that comes first: then the groups do not depend on how the
  /// batch is cut into shares.
  virtual int granule() const = 0;

  /// Takes new parameters (parameter_count() values): casts and reorders them where layers compute
  /// in other layouts, and reads the others in place, so that they must stay there, unchanged,
  /// until the next call or the last pass. Call it once after every update.
  virtual void load_parameters(std::span<const float> parameters) = 0;

  /// Runs the first `chunk_size` staged samples, a size of the menu or a multiple of the usual one
  /// up to the largest, and returns their sums.
  virtual LossSums forward(int chunk_size) = 0;
  /// The same as the finished network is used: by running averages, without dropout. No backward
  /// may follow.
  virtual LossSums evaluate(int chunk_size) = 0;

  /// What backward of this chunk does to the gradients of a share.
  struct Pass {
    bool first = true;  ///< first chunk of the share: start sums anew
    bool last = true;   ///< last chunk of the share: write the sums to `gradients`
  };
  /// Backward of the chunk that forward ran last. Gradients are sums over the share's samples.
  /// With `pass.last` they are in `gradients` (parameter_count() values; those of a share's chunks
  /// are at one place, which may hold partial sums from the first on) and `ready`, if not null, is
  /// told of each range as it becomes final.
  virtual void backward(int chunk_size, Pass pass, std::span<float> gradients,
                        const GradientReady* ready) = 0;

  /// A profile (kernels/profile.h) with a row for each layer and nothing in them. Allocates.
  virtual Profile make_profile() const = 0;
  /// From now on the time of forward and backward is added to `profile`; null: no longer.
  virtual void set_profile(Profile* profile) = 0;
};

/// A network of layers, whose samples are images or sequences of tokens. It keeps partial sums to
/// itself: `gradients` may be empty but in a share's last pass.
class Network : public Trainable {
 public:
  /// Where the caller writes a chunk's images: largest_chunk x channels x height x width, row
  /// major; a chunk of n samples uses the first n.
  virtual std::span<float> images() = 0;
  /// Likewise tokens, in [0, classes), for a network that begins with an embedding: largest_chunk x
  /// input height. Others leave them alone.
  virtual std::span<std::int32_t> tokens() = 0;
  /// Where the caller writes a chunk's labels, in [0, classes): targets() a sample.
  virtual std::span<std::int32_t> labels() = 0;
  /// Where the caller writes each sample's position in the whole run, which dropout is keyed by.
  virtual std::span<std::uint64_t> sample_keys() = 0;
};

/// Builds the network and prepares every size of its menu. Throws std::invalid_argument for an
/// unknown model or a shape the model cannot take, with the value and what would do;
/// std::runtime_error where the processor lacks what the dtype needs (bf16 without AVX-512).
std::unique_ptr<Network> make_network(const NetworkOptions& options);

/// The models make_network knows, for messages and help texts.
std::span<const char* const> model_names();

/// The rate at which running averages move towards a step's statistics.
inline constexpr float average_rate = 0.1F;

/// Writes initial parameters: a pure function of `seed` and the position in the vector, the same
/// bits everywhere. A normal value is a sum of twelve uniform ones.
void initialise_parameters(std::span<const ParameterRange> ranges, std::uint64_t seed,
                           std::span<float> parameters);

}  // namespace evenstep::kernels
