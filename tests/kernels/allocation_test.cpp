// After construction a network allocates nothing: counted at malloc and operator new, over steps
// whose shares change all the time.
//
// oneDNN itself keeps a small table of a primitive's arguments on the heap while it executes it;
// its public interface leaves no way round. Those calls are told apart by who calls, must be small
// and must all be freed again.
#include <dlfcn.h>
#include <dnnl.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/models.h"
#include "tests/kernels/harness.h"

// A sanitizer's runtime has the allocator to itself.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

std::atomic<bool> counting{false};
std::atomic<long> ours{0};
std::atomic<long> onednn_calls{0};
std::atomic<long> onednn_bytes{0};
std::atomic<long> onednn_largest{0};
std::atomic<long> onednn_live{0};

const void* onednn_base() {
  static const void* base = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&dnnl_engine_create), &info);
    return static_cast<const void*>(info.dli_fbase);
  }();
  return base;
}

bool is_onednn(void* caller) {
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_fbase == onednn_base();
}

void note_allocation(std::size_t bytes, void* caller) {
  if (!counting) return;
  if (!is_onednn(caller)) {
    ++ours;
    return;
  }
  ++onednn_calls;
  ++onednn_live;
  onednn_bytes += static_cast<long>(bytes);
  if (static_cast<long>(bytes) > onednn_largest) onednn_largest = static_cast<long>(bytes);
}

void note_free(void* block) {
  if (counting && block) --onednn_live;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) {
  note_allocation(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  note_allocation(count * bytes, __builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  note_allocation(bytes, __builtin_return_address(0));
  return __libc_realloc(block, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note_allocation(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  note_allocation(bytes, __builtin_return_address(0));
  *block = __libc_memalign(alignment, bytes);
  return *block ? 0 : 12;
}
void free(void* block) {
  note_free(block);
  __libc_free(block);
}
}

void* operator new(std::size_t bytes) {
  note_allocation(bytes, __builtin_return_address(0));
  if (void* block = __libc_malloc(bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  note_free(block);
  __libc_free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  note_free(block);
  __libc_free(block);
}

namespace evenstep::kernels::test {
namespace {

void train(Network& network, std::span<const float> parameters, std::span<float> gradients,
           std::int64_t share) {
  network.load_parameters(parameters);
  std::int64_t done = 0;
  network.menu().for_each_chunk(share, network.menu().largest(), [&](int size) {
    network.forward(size);
    done += size;
    network.backward(size, {done == size, done == share}, gradients, nullptr);
  });
}

/// oneDNN's newer matrix products take the scratchpad they are given; the older ones, which it
/// falls back to, take buffers from the heap in every call. Nothing of ours can change that.
bool has_scratchpad_products(Dtype dtype) {
  return has(dtype == Dtype::f32 ? dnnl_cpu_isa_avx512_core : dnnl_cpu_isa_avx512_core_bf16);
}

TEST_CASE("the counters see allocations") {
  onednn_base();
  ours = 0;
  counting = true;
  delete new volatile int(1);
  void* volatile block = std::malloc(10);
  std::free(block);
  counting = false;
  CHECK(ours == 2);
}

TEST_CASE("load, forward and backward of any share allocate nothing") {
  onednn_base();
  for (const char* model : {"softmax", "mlp", "cnn", "cifarnet", "resnet20", "gpt"}) {
    for (Dtype dtype : dtypes()) {
      CAPTURE(model);
      CAPTURE(static_cast<int>(dtype));
      NetworkOptions options;
      options.model = model;
      if (options.model != "gpt") options.input = find_model(model).input;
      options.dtype = dtype;
      // Linear layers skip zeros from 32 samples on.
      options.largest_chunk = options.model == "mlp" ? 32 : 16;
      options.last_chunk = 2 * options.largest_chunk;
      const auto network = make_any_network(options);
      const std::vector<float> parameters = formula_parameters(*network);
      std::vector<float> gradients(parameters.size());
      stage(*network, 0, options.last_chunk, 10);
      ours = onednn_calls = onednn_bytes = onednn_largest = onednn_live = 0;
      counting = true;
      for (std::int64_t share : {1, 31, 2, 16, 7, 48, 64, 3}) {
        train(*network, parameters, gradients, share);
      }
      counting = false;
      CHECK(ours == 0);
      CHECK(onednn_live == 0);
      if (has_scratchpad_products(dtype)) CHECK(onednn_largest <= 512);
      MESSAGE("oneDNN's own: ", onednn_calls.load(), " calls, ", onednn_bytes.load(),
              " bytes, largest ", onednn_largest.load());
    }
  }
}

}  // namespace
}  // namespace evenstep::kernels::test

#endif
