// One backward step of an unbounded recurrence, in one pass over its channels. `here` is the gradient of a state from
// its own output; `carry` comes from the later steps:
//   μ = here + carry      g_a += μ h_{t-1}ᵀ      g_u += μ      carry = aᵀ μ
// If steps do not share entries, μ overwrites `here`, which is g_u, and g_a is set instead of added to.
#pragma once

#include "transitions.hpp"

namespace TARGET {

template <bool tokens, bool shared, typename real, int fixed>
void back(Real<shared>, const real* __restrict a, const real* __restrict h, real* __restrict here,
          real* __restrict g_a, real* __restrict g_u, real* __restrict carry, Order<fixed> m, int64_t D) {
    if (!tokens) std::memset(g_a, 0, (shared ? 1 : D) * sizeof(real));
    const int64_t n = shared ? m * D : D;
    real sum = 0;
    for (int64_t i = 0; i < (shared ? 1 : m); i++, h += D, here += D, g_u += D, carry += D) {
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < n; d++) {
            const real mu = here[d] + carry[d];
            if (tokens) g_u[d] += mu;
            else here[d] = mu;
            carry[d] = a[shared ? 0 : d] * mu;
            if (shared) sum += h[d] * mu;
            else g_a[d] += h[d] * mu;
        }
    }
    if (shared) g_a[0] += sum;
}

template <bool tokens, bool shared, typename real>
void back(Complex<shared>, const real* __restrict a, const real* __restrict h, real* __restrict here,
          real* __restrict g_a, real* __restrict g_u, real* __restrict carry, Order<2>, int64_t D) {
    real sum_re = 0, sum_im = 0;
#pragma omp simd reduction(+ : sum_re, sum_im)
    for (int64_t d = 0; d < D; d++) {
        const real a_re = a[shared ? 0 : d], a_im = a[shared ? 1 : D + d];
        const real re = here[d] + carry[d], im = here[D + d] + carry[D + d];
        const real g_re = h[d] * re + h[D + d] * im, g_im = h[d] * im - h[D + d] * re;
        if (tokens) g_u[d] += re, g_u[D + d] += im;
        else here[d] = re, here[D + d] = im;
        carry[d] = a_re * re + a_im * im;
        carry[D + d] = a_re * im - a_im * re;
        if (shared) sum_re += g_re, sum_im += g_im;
        else if (tokens) g_a[d] += g_re, g_a[D + d] += g_im;
        else g_a[d] = g_re, g_a[D + d] = g_im;
    }
    if (shared) g_a[0] = tokens ? g_a[0] + sum_re : sum_re, g_a[1] = tokens ? g_a[1] + sum_im : sum_im;
}

template <bool tokens, bool shared, typename real, int fixed>
void back(Matrix<shared>, const real* a, const real* h, real* here, real* g_a, real* g_u, real* carry, Order<fixed> m,
          int64_t D) {
    add(carry, here, m * D);
    Matrix<shared>::template adjoint<tokens>(a, h, here, g_a, carry, m, D);
    if (tokens) add(here, g_u, m * D);
}

}  // namespace TARGET
