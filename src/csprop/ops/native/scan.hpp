// The bare recurrence h_t = bound(a_t h_{t-1} + u_t, 2^60), and its adjoint
//   λ_t = g_t + a_{t+1}ᵀ μ_{t+1}      μ_t = bound(λ_t through the bound of h_t, 2^30)
//   g_u = μ_t      g_a = μ_t h_{t-1}ᵀ      g_{h_0} = a_1ᵀ μ_1
// over states of m planes, with a real, complex or a matrix (1, 2 or m² planes; the transpose of a complex
// number is its conjugate), per step or per channel (1 or D columns), and h_{t-1} = 0 where a reset stands.
// States are read back; a step that was bounded is computed again from a and u.
#pragma once

#include "layout.hpp"
#include "transitions.hpp"

namespace TARGET {

template <typename Transition, typename real, int fixed>
void scan_forward_row(const Scan& scan, Order<fixed> m, real* zero, int64_t row) {
    const int64_t D = scan.width, stride = scan.planes * scan.columns;
    const real* h = at<real>(scan.h0, row * m * D);
    for (int64_t i = row * scan.steps; i < (row + 1) * scan.steps; i++) {
        real* next = at<real>(scan.h, i * m * D);
        if (scan.reset && scan.reset[i]) h = zero;
        Transition::apply(at<real>(scan.a, i * stride), h, at<real>(scan.u, i * m * D), next, m, D);
        bound(next, m, D, real(LIMIT));
        h = next;
    }
}

template <typename Transition, typename real, int fixed>
void scan_backward_row(const Scan& scan, Order<fixed> m, real* zero, int64_t row) {
    const int64_t D = scan.width, state = m * D, stride = scan.planes * scan.columns, begin = row * scan.steps;
    real *carry = zero + state, *pre = carry + state;
    std::memset(carry, 0, state * sizeof(real));
    constexpr int64_t ahead = 4;
    for (int64_t i = begin + scan.steps - 1; i >= begin; i--) {
        if (i >= begin + ahead) {
            fetch(at<real>(scan.a, (i - ahead) * stride), stride);
            fetch(at<real>(static_cast<const void*>(scan.h), (i - ahead) * state), state);
            fetch(at<real>(scan.g_h, (i - ahead) * state), state);
            fetch(at<real>(static_cast<const void*>(scan.g_a), (i - ahead) * stride), stride);
            fetch(at<real>(static_cast<const void*>(scan.g_u), (i - ahead) * state), state);
        }
        const bool resets = scan.reset && scan.reset[i];
        const real *h = at<real>(scan.h, i * state), *a = at<real>(scan.a, i * stride);
        const real* before = resets ? zero : i > begin ? h - state : at<real>(scan.h0, row * state);
        const real* __restrict g_h = at<real>(scan.g_h, i * state);
        real* __restrict mu = at<real>(scan.g_u, i * state);
#pragma omp simd
        for (int64_t d = 0; d < state; d++) mu[d] = g_h[d] + carry[d];
        if (any_above(h, m, D, real(LIMIT / 2))) {
            Transition::apply(a, before, at<real>(scan.u, i * state), pre, m, D);
            bound_adjoint(pre, mu, m, D, real(LIMIT));
        }
        bound(mu, m, D, real(GRADIENT_LIMIT));
        Transition::adjoint(a, before, mu, at<real>(scan.g_a, i * stride), carry, m, D);
        if (resets) std::memset(carry, 0, state * sizeof(real));
    }
    std::memcpy(at<real>(scan.g_h0, row * state), carry, state * sizeof(real));
}

template <typename Transition, typename real, int fixed>
void scan_rows(const Scan& scan, Order<fixed> m, real* zero, int64_t first, int64_t last) {
    std::memset(zero, 0, m * scan.width * sizeof(real));
    for (int64_t row = first; row < last; row++) {
        if (scan.g_h) scan_backward_row<Transition>(scan, m, zero, row);
        else scan_forward_row<Transition>(scan, m, zero, row);
    }
}

template <bool shared, typename real, int fixed>
void scan_planes(const Scan& scan, Order<fixed> m, real* memory, int64_t first, int64_t last) {
    // Real factors go plane by plane anyway: a fixed order is worth its code for two alone.
    const Order<fixed == 2 ? 2 : 0> few_or_many{m};
    if (scan.planes == 1) return scan_rows<Real<shared>>(scan, few_or_many, memory, first, last);
    if constexpr (fixed == 2)
        if (scan.planes == 2) return scan_rows<Complex<shared>>(scan, m, memory, first, last);
    scan_rows<Matrix<shared>>(scan, m, memory, first, last);
}

template <typename real, int fixed>
void scan_order(const Scan& scan, Order<fixed> m, void* memory, int64_t first, int64_t last) {
    real* numbers = static_cast<real*>(memory);
    if (scan.columns == 1) scan_planes<true>(scan, m, numbers, first, last);
    else scan_planes<false>(scan, m, numbers, first, last);
}

template <typename real>
void scan_either(const Scan& scan, void* memory, int64_t first, int64_t last) {
    switch (scan.order) {
        case 2: return scan_order<real>(scan, Order<2>{}, memory, first, last);
        case 3: return scan_order<real>(scan, Order<3>{}, memory, first, last);
        case 4: return scan_order<real>(scan, Order<4>{}, memory, first, last);
        case 5: return scan_order<real>(scan, Order<5>{}, memory, first, last);
        default: return scan_order<real>(scan, Order<0>{scan.order}, memory, first, last);
    }
}

}  // namespace TARGET
