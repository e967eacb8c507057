// A state as planes of real numbers, two for a complex one. The scan and the block share this.
#pragma once

#include "functions.hpp"

namespace TARGET {

// As in planes.py: no state grows past LIMIT, no gradient that a state passes back past GRADIENT_LIMIT, and
// no free angle past ANGLE_LIMIT.
constexpr double LIMIT = 0x1p60, GRADIENT_LIMIT = 0x1p30, ANGLE_LIMIT = 0x1p10;

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

template <typename real>
INLINE real dot(const real* __restrict w, const real* __restrict x, int64_t n) {
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += w[i] * x[i];
    return sum;
}

// The planes of a state, (m, D): how many is fixed, or known only when running (0).
template <int fixed>
struct Order {
    int64_t given = fixed;
    INLINE operator int64_t() const { return fixed ? fixed : given; }

    // Unrolled where fixed: the loop over channels around it is only vectorised without inner loops.
    template <typename Function>
    INLINE void each(Function function) const {
        if constexpr (fixed != 0) {
#pragma GCC unroll 5
            for (int64_t i = 0; i < fixed; i++) function(i);
        } else {
            for (int64_t i = 0; i < given; i++) function(i);
        }
    }
};

constexpr Order<2> PAIR;  // a complex number

// |x| / limit of the channel at x; scaled first: the squares stay finite.
template <typename real, int fixed>
INLINE real excess(const real* x, Order<fixed> m, int64_t D, real limit) {
    real sum = 0;
    for (int64_t i = 0; i < m; i++) sum += (x[i * D] / limit) * (x[i * D] / limit);
    return std::sqrt(sum);
}

template <typename real, int fixed>
bool any_above(const real* __restrict x, Order<fixed> m, int64_t D, real limit) {
    int above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t d = 0; d < D; d++) {
        real sum = 0;
        m.each([&](int64_t i) { sum += x[i * D + d] * x[i * D + d]; });
        above |= sum > limit * limit;
    }
    return above;
}

// x / max(1, |x| / limit) in place, in each channel.
template <typename real, int fixed>
INLINE void bound(real* x, Order<fixed> m, int64_t D, real limit) {
    if (!any_above(x, m, D, limit)) return;
    for (int64_t d = 0; d < D; d++) {
        const real by = excess(x + d, m, D, limit);
        for (int64_t i = 0; by > 1 && i < m; i++) x[i * D + d] /= by;
    }
}

// The gradient through y = bound(x, limit), in place: its tangential part where |x| > limit.
template <typename real, int fixed>
void bound_adjoint(const real* x, real* g, Order<fixed> m, int64_t D, real limit) {
    if (!any_above(x, m, D, limit)) return;
    for (int64_t d = 0; d < D; d++) {
        const real by = excess(x + d, m, D, limit);
        if (!(by > 1)) continue;
        const auto unit = [&](int64_t i) { return x[i * D + d] / limit / by; };
        real radial = 0;
        for (int64_t i = 0; i < m; i++) radial += unit(i) * g[i * D + d];
        for (int64_t i = 0; i < m; i++) g[i * D + d] = (g[i * D + d] - unit(i) * radial) / by;
    }
}

}  // namespace TARGET
