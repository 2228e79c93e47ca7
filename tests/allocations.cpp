#include "tests/allocations.h"

#include <cstdlib>
#include <new>

std::atomic<long> allocations = 0;
std::atomic<bool> counting = true;

void* operator new(std::size_t size) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
