// What a long walk asks of memory: to have ready what it will read, and to keep what it writes out of the cache.
// Everything here is inlined: a compiler takes calls of a function that only fetches for calls without effect.
#pragma once

#include "functions.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace TARGET {

constexpr int64_t LINE = 64;             // bytes that a cache takes and gives together
constexpr int64_t PAST_CACHE = 1 << 22;  // bytes written from which on it pays to write past the cache

template <typename real>
INLINE void fetch(const real* from, int64_t numbers) {
    for (int64_t i = 0; i < numbers; i += LINE / sizeof(real)) FETCH(from + i);
}

// Processors foresee a walk through memory upwards, not downwards. While a walk goes down a tile of steps it therefore
// fetches the tile below upwards: the first step of it at the last step of its own, and so on. Negative: there is none.
INLINE int64_t mirrored(int64_t step, int64_t tile) { return (step / tile - 1) * tile + tile - 1 - step % tile; }

// So many steps that their numbers, of several tensors, have room in the second cache twice.
INLINE int64_t tile_of(int64_t bytes_of_a_step) {
    constexpr int64_t bytes = 1 << 16;
    return bytes_of_a_step < bytes ? bytes / bytes_of_a_step : 1;
}

// Whether steps of so many numbers fill whole lines.
template <typename real>
INLINE bool fills_lines(const void* tensor, int64_t numbers) {
    return reinterpret_cast<uintptr_t>(tensor) % LINE == 0 && numbers * sizeof(real) % LINE == 0;
}

// Writes whole lines past the cache. That pays where more is written than a cache holds: a line need not be read
// before it is written, and what is in the cache stays there.
template <typename real>
INLINE void write_past_cache(const real* from, real* to, int64_t numbers) {
#if defined(__SSE2__)
    for (int64_t i = 0; i < numbers; i += 16 / sizeof(real)) {
        const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), some);
    }
#else
    std::memcpy(to, from, numbers * sizeof(real));
#endif
}

// After this other threads see what was written past the cache.
INLINE void finish_writing() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

}  // namespace TARGET
