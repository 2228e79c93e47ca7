// Vectors of floats in GCC's terms, to be used in functions marked EVENSTEP_MULTIVERSION.
#pragma once

#include <cstring>

#include "runtime/multiversion.h"

namespace evenstep::kernels::onednn {

template <int lanes>
struct VectorOf {
  typedef float Type __attribute__((vector_size(4 * lanes)));
};
template <int lanes>
using Vector = typename VectorOf<lanes>::Type;

// By memcpy, since a vector may begin at any float. Not by value: that would need AVX everywhere.
template <typename V>
EVENSTEP_INLINE void load(const float* from, V& to) {
  std::memcpy(&to, from, sizeof to);
}
template <typename V>
EVENSTEP_INLINE void store(const V& from, float* to) {
  std::memcpy(to, &from, sizeof from);
}

}  // namespace evenstep::kernels::onednn
