// The words that differ between compilers. MSVC cannot compile for several kinds of processors in one library, so
// avx2.cpp is empty there; it has no vectors either, and products.hpp has arrays in their place.
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
