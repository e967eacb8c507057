// The bare recurrence h_t = bound(a_t h_{t-1} + u_t, 2^60), and its adjoint
//   λ_t = g_t + conj(a_{t+1}) μ_{t+1}      μ_t = bound(λ_t through the bound of h_t, 2^30)
//   g_u = μ_t      g_a = conj(h_{t-1}) μ_t      g_{h_0} = conj(a_1) μ_1
// with a real or complex (1 or 2 planes), per step or per channel (1 or D columns), and h_{t-1} = 0 where
// a reset stands. States are read back; a step that was bounded is computed again from a and u.
#pragma once

#include "layout.hpp"
#include "planes.hpp"

namespace TARGET {

// next = a h + u for one step; `shared`: one a for all channels.
template <bool complex, bool shared, typename real>
void step(const real* __restrict a, const real* __restrict h, const real* __restrict u,
                 real* __restrict next, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real re = a[shared ? 0 : d], im = complex ? a[shared ? 1 : D + d] : real(0);
        next[d] = u[d] + re * h[d] - (complex ? im * h[D + d] : 0);
        next[D + d] = u[D + d] + re * h[D + d] + (complex ? im * h[d] : 0);
    }
}

template <bool complex, bool shared, typename real>
void scan_forward_row(const Scan& scan, real* zero, int64_t row) {
    const int64_t D = scan.width, stride = scan.planes * scan.columns;
    const real* h = at<real>(scan.h0, row * 2 * D);
    for (int64_t i = row * scan.steps; i < (row + 1) * scan.steps; i++) {
        real* next = at<real>(scan.h, i * 2 * D);
        if (scan.reset && scan.reset[i]) h = zero;
        step<complex, shared>(at<real>(scan.a, i * stride), h, at<real>(scan.u, i * 2 * D), next, D);
        bound(next, next + D, D, real(LIMIT));
        h = next;
    }
}

// g_a and the carry conj(a) μ.
template <bool complex, bool shared, typename real>
void step_adjoint(const real* __restrict a, const real* __restrict h, const real* __restrict mu,
                         real* __restrict g_a, real* __restrict carry, int64_t D) {
    real sum_re = 0, sum_im = 0;
#pragma omp simd reduction(+ : sum_re, sum_im)
    for (int64_t d = 0; d < D; d++) {
        const real re = a[shared ? 0 : d], im = complex ? a[shared ? 1 : D + d] : real(0);
        const real g_re = h[d] * mu[d] + h[D + d] * mu[D + d], g_im = h[d] * mu[D + d] - h[D + d] * mu[d];
        carry[d] = re * mu[d] + (complex ? im * mu[D + d] : 0);
        carry[D + d] = re * mu[D + d] - (complex ? im * mu[d] : 0);
        if (shared) {
            sum_re += g_re, sum_im += g_im;
        } else {
            g_a[d] = g_re;
            if (complex) g_a[D + d] = g_im;
        }
    }
    if (shared) g_a[0] = sum_re;
    if (shared && complex) g_a[1] = sum_im;
}

template <bool complex, bool shared, typename real>
void scan_backward_row(const Scan& scan, real* zero, int64_t row) {
    const int64_t D = scan.width, stride = scan.planes * scan.columns, begin = row * scan.steps;
    real *carry = zero + 2 * D, *pre = carry + 2 * D;
    std::memset(carry, 0, 2 * D * sizeof(real));
    constexpr int64_t ahead = 4;
    for (int64_t i = begin + scan.steps - 1; i >= begin; i--) {
        if (i >= begin + ahead) {
            fetch(at<real>(scan.a, (i - ahead) * stride), stride);
            fetch(at<real>(static_cast<const void*>(scan.h), (i - ahead) * 2 * D), 2 * D);
            fetch(at<real>(scan.g_h, (i - ahead) * 2 * D), 2 * D);
            fetch(at<real>(static_cast<const void*>(scan.g_a), (i - ahead) * stride), stride);
            fetch(at<real>(static_cast<const void*>(scan.g_u), (i - ahead) * 2 * D), 2 * D);
        }
        const bool resets = scan.reset && scan.reset[i];
        const real *h = at<real>(scan.h, i * 2 * D), *a = at<real>(scan.a, i * stride);
        const real* before = resets ? zero : i > begin ? h - 2 * D : at<real>(scan.h0, row * 2 * D);
        const real* __restrict g_h = at<real>(scan.g_h, i * 2 * D);
        real* __restrict mu = at<real>(scan.g_u, i * 2 * D);
#pragma omp simd
        for (int64_t d = 0; d < 2 * D; d++) mu[d] = g_h[d] + carry[d];
        if (any_above(h, h + D, D, real(LIMIT / 2))) {
            step<complex, shared>(a, before, at<real>(scan.u, i * 2 * D), pre, D);
            bound_adjoint(pre, pre + D, mu, mu + D, D, real(LIMIT));
        }
        bound(mu, mu + D, D, real(GRADIENT_LIMIT));
        step_adjoint<complex, shared>(a, before, mu, at<real>(scan.g_a, i * stride), carry, D);
        if (resets) std::memset(carry, 0, 2 * D * sizeof(real));
    }
    std::memcpy(at<real>(scan.g_h0, row * 2 * D), carry, 2 * D * sizeof(real));
}

}  // namespace TARGET
