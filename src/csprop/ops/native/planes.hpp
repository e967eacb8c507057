// Complex numbers as two planes of real ones: what the scan and the block share.
#pragma once

#include "functions.hpp"

namespace TARGET {

// As in planes.py: no state grows past LIMIT, no gradient that a state passes back past GRADIENT_LIMIT.
constexpr double LIMIT = 0x1p60, GRADIENT_LIMIT = 0x1p30;

template <typename real>
INLINE const real* at(const void* base, int64_t offset) {
    return base ? static_cast<const real*>(base) + offset : nullptr;
}

template <typename real>
INLINE real* at(void* base, int64_t offset) {
    return base ? static_cast<real*>(base) + offset : nullptr;
}

template <typename real>
INLINE real total(const real* __restrict x, int64_t n) {
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < n; d++) sum += x[d];
    return sum;
}

// Processors foresee a walk through memory forwards, not backwards: an adjoint asks for what comes next.
template <typename real>
INLINE void fetch(const real* from, int64_t numbers) {
    for (int64_t i = 0; i < numbers; i += 64 / sizeof(real)) __builtin_prefetch(from + i);
}

// |x| / limit; scaled first, so that the squares stay finite.
template <typename real>
INLINE real excess(real re, real im, real limit) {
    re /= limit, im /= limit;
    return std::sqrt(re * re + im * im);
}

template <typename real>
bool any_above(const real* __restrict re, const real* __restrict im, int64_t n, real limit) {
    int above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t d = 0; d < n; d++) above |= re[d] * re[d] + im[d] * im[d] > limit * limit;
    return above;
}

// x / max(1, |x| / limit) in place, on n complex numbers.
template <typename real>
INLINE void bound(real* re, real* im, int64_t n, real limit) {
    if (!any_above(re, im, n, limit)) return;
    for (int64_t d = 0; d < n; d++) {
        const real by = excess(re[d], im[d], limit);
        if (by > 1) re[d] /= by, im[d] /= by;
    }
}

// The gradient through y = bound(x, limit), in place: its tangential part where |x| > limit.
template <typename real>
void bound_adjoint(const real* x_re, const real* x_im, real* g_re, real* g_im, int64_t n, real limit) {
    if (!any_above(x_re, x_im, n, limit)) return;
    for (int64_t d = 0; d < n; d++) {
        const real by = excess(x_re[d], x_im[d], limit);
        if (!(by > 1)) continue;
        const real re = x_re[d] / limit / by, im = x_im[d] / limit / by;
        const real radial = re * g_re[d] + im * g_im[d];
        g_re[d] = (g_re[d] - re * radial) / by;
        g_im[d] = (g_im[d] - im * radial) / by;
    }
}

}  // namespace TARGET
