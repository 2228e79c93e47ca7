// Our own code is compiled for any x86-64. A function marked EVENSTEP_MULTIVERSION is compiled for
// AVX2 and AVX-512 as well, and the loader picks one by what the processor has.
#pragma once

// Sanitizer runtimes are not up yet when the loader runs the pickers.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define EVENSTEP_MULTIVERSION \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define EVENSTEP_MULTIVERSION
#endif

// Code shared by several multiversioned functions must be inlined into each of their versions.
#if defined(__GNUC__)
#define EVENSTEP_INLINE inline __attribute__((always_inline))
#else
#define EVENSTEP_INLINE inline
#endif

namespace evenstep {

/// Whether the AVX-512 version of a function is the one that runs, where there is one.
inline bool has_avx512() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

/// Whether the AVX2 version does, or the AVX-512 one; likewise.
inline bool has_avx2() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace evenstep
