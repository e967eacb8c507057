// A step on a state of m planes, (m, D), with one struct for each kind of a: apply(), next = a h + u, and adjoint(),
// from μ the gradient of a, to which it adds where `add` is set, and the carry aᵀ μ. `shared`: one a for all channels.
#pragma once

#include "products.hpp"

namespace TARGET {

// One factor, real.
template <bool shared>
struct Real {
    template <typename real, int fixed>
    static void apply(const real* __restrict a, const real* __restrict h, const real* __restrict u,
                      real* __restrict next, Order<fixed> m, int64_t D) {
        for (int64_t i = 0; i < m; i++, h += D, u += D, next += D) {
#pragma omp simd
            for (int64_t d = 0; d < D; d++) next[d] = u[d] + a[shared ? 0 : d] * h[d];
        }
    }

    template <bool add = false, typename real, int fixed>
    static void adjoint(const real* __restrict a, const real* __restrict h, const real* __restrict mu,
                        real* __restrict g_a, real* __restrict carry, Order<fixed> m, int64_t D) {
        if (!add) std::memset(g_a, 0, (shared ? 1 : D) * sizeof(real));
        if (shared) {
            g_a[0] += scale_and_dot(a[0], mu, h, carry, m * D);
            return;
        }
        for (int64_t i = 0; i < m; i++, h += D, mu += D, carry += D) {
#pragma omp simd
            for (int64_t d = 0; d < D; d++) {
                carry[d] = a[d] * mu[d];
                g_a[d] += h[d] * mu[d];
            }
        }
    }
};

// One factor, complex: (2, D) as a state of two planes.
template <bool shared>
struct Complex {
    template <typename real>
    static void apply(const real* __restrict a, const real* __restrict h, const real* __restrict u,
                      real* __restrict next, Order<2>, int64_t D) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            const real re = a[shared ? 0 : d], im = a[shared ? 1 : D + d];
            next[d] = u[d] + re * h[d] - im * h[D + d];
            next[D + d] = u[D + d] + re * h[D + d] + im * h[d];
        }
    }

    template <bool add = false, typename real>
    static void adjoint(const real* __restrict a, const real* __restrict h, const real* __restrict mu,
                        real* __restrict g_a, real* __restrict carry, Order<2>, int64_t D) {
        real sum_re = 0, sum_im = 0;
#pragma omp simd reduction(+ : sum_re, sum_im)
        for (int64_t d = 0; d < D; d++) {
            const real re = a[shared ? 0 : d], im = a[shared ? 1 : D + d];
            const real g_re = h[d] * mu[d] + h[D + d] * mu[D + d], g_im = h[d] * mu[D + d] - h[D + d] * mu[d];
            carry[d] = re * mu[d] + im * mu[D + d];
            carry[D + d] = re * mu[D + d] - im * mu[d];
            if (shared) sum_re += g_re, sum_im += g_im;
            else if (add) g_a[d] += g_re, g_a[D + d] += g_im;
            else g_a[d] = g_re, g_a[D + d] = g_im;
        }
        if (shared) g_a[0] = add ? g_a[0] + sum_re : sum_re, g_a[1] = add ? g_a[1] + sum_im : sum_im;
    }
};

// A matrix, (m, m, D) or (m, m).
template <bool shared>
struct Matrix {
    template <typename real, int fixed>
    static void apply(const real* __restrict a, const real* __restrict h, const real* __restrict u,
                      real* __restrict next, Order<fixed> m, int64_t D) {
        for (int64_t i = 0; i < m; i++) {
#pragma omp simd
            for (int64_t d = 0; d < D; d++) {
                real sum = u[i * D + d];
                m.each([&](int64_t j) { sum += a[shared ? i * m + j : (i * m + j) * D + d] * h[j * D + d]; });
                next[i * D + d] = sum;
            }
        }
    }

    template <bool add = false, typename real, int fixed>
    static void adjoint(const real* __restrict a, const real* __restrict h, const real* __restrict mu,
                        real* __restrict g_a, real* __restrict carry, Order<fixed> m, int64_t D) {
        for (int64_t j = 0; j < m; j++) {
#pragma omp simd
            for (int64_t d = 0; d < D; d++) {
                real sum = 0;
                m.each([&](int64_t i) { sum += a[shared ? i * m + j : (i * m + j) * D + d] * mu[i * D + d]; });
                carry[j * D + d] = sum;
            }
        }
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < m; j++) {
                real sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t d = 0; d < D; d++) {
                    const real product = mu[i * D + d] * h[j * D + d];
                    real& g = g_a[shared ? 0 : (i * m + j) * D + d];
                    if (shared) sum += product;
                    else g = add ? g + product : product;
                }
                if (shared) g_a[i * m + j] = add ? g_a[i * m + j] + sum : sum;
            }
        }
    }
};

}  // namespace TARGET
