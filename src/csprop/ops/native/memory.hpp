// Memory access of long walks: prefetch the data to be read, and write results past the cache.
// Everything here is inlined: a compiler may drop a call of a function that only prefetches.
#pragma once

#include "functions.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace TARGET {

constexpr int64_t LINE = 64;             // bytes of a cache line
constexpr int64_t PAST_CACHE = 1 << 22;  // bytes written from which on it pays to write past the cache

template <typename real>
INLINE void fetch(const real* from, int64_t numbers) {
    for (int64_t i = 0; i < numbers; i += LINE / sizeof(real)) FETCH(from + i);
}

// Processors prefetch upward walks through memory, not downward ones. While a walk goes down a tile of steps, it
// fetches the tile below upwards: the first step there during the last step here, and so on. Negative: there is no tile.
INLINE int64_t mirrored(int64_t step, int64_t tile) { return (step / tile - 1) * tile + tile - 1 - step % tile; }

// The number of steps whose numbers, over several tensors, fit twice into the second-level cache.
INLINE int64_t tile_of(int64_t bytes_of_a_step) {
    constexpr int64_t bytes = 1 << 16;
    return bytes_of_a_step < bytes ? bytes / bytes_of_a_step : 1;
}

// Returns true if steps of this size fill whole lines.
template <typename real>
INLINE bool fills_lines(const void* tensor, int64_t numbers) {
    return reinterpret_cast<uintptr_t>(tensor) % LINE == 0 && numbers * sizeof(real) % LINE == 0;
}

// Writes whole lines past the cache. This pays if more is written than the cache holds: a line is not read before it
// is written, and the cache keeps its contents.
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
