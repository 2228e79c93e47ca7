// Large arrays in pages of 2 MiB, where the system allows it (transparent huge pages): reads at
// random places in them then find their addresses without a walk through the page tables.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace evenstep {

template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename Other>
  explicit HugePageAllocator(const HugePageAllocator<Other>& /*other*/) {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    void* block = ::operator new(bytes, alignment_of(bytes));
    if (bytes >= page_bytes) madvise(block, bytes, MADV_HUGEPAGE);  // a wish
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t count) {
    ::operator delete(block, alignment_of(count * sizeof(T)));
  }
  bool operator==(const HugePageAllocator&) const { return true; }

 private:
  static constexpr std::size_t page_bytes = std::size_t{2} << 20;
  static std::align_val_t alignment_of(std::size_t bytes) {
    return std::align_val_t{bytes >= page_bytes ? page_bytes : 64};
  }
};

}  // namespace evenstep
