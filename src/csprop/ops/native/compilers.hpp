// Keywords that differ between compilers. MSVC cannot compile for several processors in one library, so avx2.cpp is
// empty there. It has no vector types either, and products.hpp uses arrays instead.
#pragma once

#if defined(__GNUC__)
#define INLINE inline __attribute__((always_inline))
#define FETCH(address) __builtin_prefetch(address, 0, 2)
#else
#define INLINE __forceinline
#define FETCH(address) ((void)(address))
#endif

#if defined(_WIN32)
#define CALLED_BY_PYTHON extern "C" __declspec(dllexport)
#else
#define CALLED_BY_PYTHON extern "C"
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)
#define HAS_AVX2_CODE
#endif
