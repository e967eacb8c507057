// For x86-64 processors with AVX2 and FMA.
#include "compilers.hpp"
#if defined(HAS_AVX2_CODE)
#include <emmintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

// After the headers above, whose inline functions must run anywhere.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define TARGET avx2
#include "rows.hpp"

extern const Functions avx2_functions = avx2::functions;
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
