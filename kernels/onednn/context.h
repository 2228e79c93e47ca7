// What all layers of a network share while they are built and run: engine, stream, memory plan.
#pragma once

#include <vector>

#include <dnnl.hpp>

#include "kernels/network.h"
#include "kernels/onednn/memory_plan.h"

namespace evenstep::kernels::onednn {

/// A primitive with its arguments bound once. oneDNN's own execute() in C++ builds a list of
/// arguments on the heap in every call; this one does not.
class Call {
 public:
  Call() = default;
  struct Argument {
    int name;  ///< DNNL_ARG_...
    dnnl::memory memory;
  };
  Call(dnnl::primitive primitive, std::vector<Argument> arguments);
  void run(const dnnl::stream& stream) const;

 private:
  dnnl::primitive primitive_;
  std::vector<Argument> keep_alive_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

struct Context {
  Context(const ChunkMenu& chunk_menu, Dtype compute_dtype);

  /// Makes a primitive of `desc`, which must have been made with `attributes`, with the common
  /// scratchpad.
  Call bind(const dnnl::primitive_desc_base& desc, std::vector<Call::Argument> arguments);
  /// In long stretches of backward, now and then, on the calling thread: communication may move
  /// along.
  void breathe() const {
    if (ready != nullptr) (*ready)(final_gradients, 0);
  }
  /// A copy that changes layout and type.
  Call reorder(const dnnl::memory& from, const dnnl::memory& to);

  ChunkMenu menu;
  Dtype dtype;
  dnnl::memory::data_type type;  ///< dtype in oneDNN's words
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::primitive_attr attributes;
  MemoryPlan plan;
  MemoryPlan::Region scratchpad;
  int granule = 1;  ///< samples that batch norm takes together
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> sample_keys;  ///< of the staged samples
  std::vector<std::int32_t> tokens;        ///< likewise, of sequences
  std::size_t first_sample = 0;            ///< of all these, of the piece that runs
  /// Gradients of the current chunk on their way into a layer's sums.
  MemoryPlan::Region weight_part;
  MemoryPlan::Region bias_part;
  /// What products list or pack while they run.
  MemoryPlan::Region product_scratch;
  /// In backward of a last chunk, if anyone asked: whom to tell of gradients that are final, and
  /// how many are.
  const GradientReady* ready = nullptr;
  std::int64_t final_gradients = 0;
};

/// The tensor between two layers. Each list has one memory a size of the menu, in its order; all
/// of a list are views of one region.
struct Tensor {
  SampleShape shape;
  std::vector<dnnl::memory> values;
  std::vector<dnnl::memory> gradients;  ///< empty for the network's input
  std::vector<std::int64_t> counts;     ///< elements in memory, with what a layout pads
  std::vector<std::size_t> gradient_bytes;
  MemoryPlan::Region values_region = 0;
  MemoryPlan::Region gradients_region = 0;

  /// Appends the views for the menu's next size.
  void add_values(MemoryPlan& plan, const dnnl::memory::desc& desc);
  void add_gradients(MemoryPlan& plan, const dnnl::memory::desc& desc);
  bool has_gradients() const { return !gradients.empty(); }
};

/// Numbers that a layer keeps from forward to backward of a piece.
class Kept {
 public:
  Kept() = default;
  Kept(Context& context, std::size_t count);
  float* begin() const { return static_cast<float*>(values_.get_data_handle()); }
  float& operator[](std::size_t i) { return begin()[i]; }

 private:
  dnnl::memory values_;
};

/// Copies the gradients of `from` to `to`, where they are not the same memory.
void copy_gradients(const Tensor& from, const Tensor& to, std::size_t size);

/// The plain or channel-blocked layout of activations with this description: one of nchw, nhwc,
/// nChw8c, nChw16c. Throws std::logic_error for any other.
dnnl::memory::format_tag layout_of(const dnnl::memory::desc& desc);

/// Elements in memory, with what a blocked layout pads. (Not for the hot path: memory::get_desc()
/// allocates.)
std::int64_t element_count(const dnnl::memory::desc& desc);

/// Whether all that oneDNN has for this is its reference code, tens of times as slow as the rest.
bool is_reference(const dnnl::primitive_desc_base& desc);

/// The values of a memory object. T must be its element type.
template <typename T>
T* data(const dnnl::memory& memory) {
  return static_cast<T*>(memory.get_data_handle());
}

}  // namespace evenstep::kernels::onednn
