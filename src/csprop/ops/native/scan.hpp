// The bare recurrence h_t = bound(a_t h_{t-1} + u_t, 2^60), and its adjoint
//   λ_t = g_t + a_{t+1}ᵀ μ_{t+1}      μ_t = bound(λ_t through the bound of h_t, 2^30)
//   g_u = μ_t      g_a = μ_t h_{t-1}ᵀ      g_{h_0} = a_1ᵀ μ_1
// over states of m planes, with a real, complex or a matrix (1, 2 or m² planes; the transpose of a complex
// number is its conjugate), per step or per channel (1 or D columns), and h_{t-1} = 0 where a reset stands.
// States are read back; a step that was bounded is computed again from a and u.
#pragma once

#include "layout.hpp"
#include "memory.hpp"
#include "transitions.hpp"

namespace TARGET {

// Memory of one thread: states, and one step of a.
template <typename real>
struct ScanScratch {
    real *zero, *carry, *pre, *mu, *g_a;

    ScanScratch(real* memory, int64_t state)
        : zero(memory), carry(zero + state), pre(carry + state), mu(pre + state), g_a(mu + state) {}
};

template <typename Transition, typename real, int fixed>
void scan_forward_row(const Scan& scan, Order<fixed> m, const ScanScratch<real>& s, bool past_cache, int64_t row) {
    const int64_t D = scan.width, state = m * D, stride = scan.planes * scan.columns, end = (row + 1) * scan.steps;
    constexpr int64_t ahead = 2;
    const bool wide = state * sizeof(real) > 1024;  // processors prefetch shorter steps by themselves
    const real* h = at<real>(scan.h0, row * state);
    for (int64_t i = row * scan.steps; i < end; i++) {
        if (wide && i + ahead < end) {
            fetch(at<real>(scan.a, (i + ahead) * stride), stride);
            fetch(at<real>(scan.u, (i + ahead) * state), state);
        }
        real* next = !past_cache ? at<real>(scan.h, i * state) : h == s.mu ? s.pre : s.mu;
        if (scan.reset && scan.reset[i]) h = s.zero;
        Transition::apply(at<real>(scan.a, i * stride), h, at<real>(scan.u, i * state), next, m, D);
        bound(next, m, D, real(LIMIT));
        if (past_cache) write_past_cache(next, at<real>(scan.h, i * state), state);
        h = next;
    }
}

// Computes mu = g + carry. Returns true if it, or the state, may be beyond a limit.
template <typename real, int fixed>
bool collect(const real* __restrict g, const real* __restrict carry, const real* __restrict h, real* __restrict mu,
             Order<fixed> m, int64_t D) {
    int above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t d = 0; d < D; d++) {
        real gradient = 0, size = 0;
        m.each([&](int64_t i) {
            const real sum = g[i * D + d] + carry[i * D + d];
            mu[i * D + d] = sum;
            gradient += sum * sum;
            size += h[i * D + d] * h[i * D + d];
        });
        above |= gradient > real(GRADIENT_LIMIT * GRADIENT_LIMIT);
        above |= size > real(LIMIT * LIMIT / 4);
    }
    return above;
}

template <typename Transition, typename real, int fixed>
void scan_backward_row(const Scan& scan, Order<fixed> m, const ScanScratch<real>& s, bool past_cache, int64_t row) {
    const int64_t D = scan.width, state = m * D, stride = scan.planes * scan.columns, begin = row * scan.steps;
    const int64_t tile = tile_of((2 * state + stride) * sizeof(real));
    const bool a_past_cache = past_cache && fills_lines<real>(scan.g_a, stride);
    const void* states = scan.h;
    real* carry = s.carry;
    std::memset(carry, 0, state * sizeof(real));
    for (int64_t i = begin + scan.steps - 1; i >= begin; i--) {
        const int64_t soon = begin + mirrored(i - begin, tile);
        if (soon >= begin) {
            fetch(at<real>(scan.a, soon * stride), stride);
            fetch(at<real>(states, soon * state), state);
            fetch(at<real>(scan.g_h, soon * state), state);
        }
        const bool resets = scan.reset && scan.reset[i];
        const real *h = at<real>(states, i * state), *a = at<real>(scan.a, i * stride);
        const real* before = resets ? s.zero : i > begin ? h - state : at<real>(scan.h0, row * state);
        real *g_u = at<real>(scan.g_u, i * state), *mu = past_cache ? s.mu : g_u;
        real *to = at<real>(scan.g_a, i * stride), *g_a = a_past_cache ? s.g_a : to;
        if (collect(at<real>(scan.g_h, i * state), carry, h, mu, m, D)) {
            Transition::apply(a, before, at<real>(scan.u, i * state), s.pre, m, D);
            bound_adjoint(s.pre, mu, m, D, real(LIMIT));
            bound(mu, m, D, real(GRADIENT_LIMIT));
        }
        Transition::adjoint(a, before, mu, g_a, carry, m, D);
        if (past_cache) write_past_cache(mu, g_u, state);
        if (a_past_cache) write_past_cache(g_a, to, stride);
        if (resets) std::memset(carry, 0, state * sizeof(real));
    }
    std::memcpy(at<real>(scan.g_h0, row * state), carry, state * sizeof(real));
}

template <typename Transition, typename real, int fixed>
void scan_rows(const Scan& scan, Order<fixed> m, real* memory, int64_t first, int64_t last) {
    const int64_t state = m * scan.width, numbers = state + (scan.g_h ? scan.planes * scan.columns : 0);
    const bool past_cache = fills_lines<real>(scan.g_h ? scan.g_u : scan.h, state) &&
                            scan.batch * scan.steps * numbers * int64_t(sizeof(real)) > PAST_CACHE;
    const ScanScratch<real> s(memory, state);
    std::memset(s.zero, 0, state * sizeof(real));
    for (int64_t row = first; row < last; row++) {
        if (scan.g_h) scan_backward_row<Transition>(scan, m, s, past_cache, row);
        else scan_forward_row<Transition>(scan, m, s, past_cache, row);
    }
    if (past_cache) finish_writing();
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
