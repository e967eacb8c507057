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

// Some channels of tensors whose steps have so many planes of D numbers.
template <typename real>
struct Cut {
    int64_t first;
    Channels D;

    INLINE const real* of(const void* tensor, int64_t i, int64_t planes) const {
        return static_cast<const real*>(tensor) + i * planes * D + first;
    }
    INLINE real* of(void* tensor, int64_t i, int64_t planes) const {
        return static_cast<real*>(tensor) + i * planes * D + first;
    }

    INLINE void fetch_step(const void* tensor, int64_t i, int64_t planes) const {
        const real* from = of(tensor, i, planes);
        for (int64_t plane = 0; plane < planes; plane++) fetch(from + plane * D, D.count);
    }

    // Once a page: what is written past the cache then need not wait for where the page is.
    INLINE void fetch_page(const void* tensor, int64_t i, int64_t planes) const {
        const real* to = of(tensor, i, planes);
        if (reinterpret_cast<uintptr_t>(to) % 4096 < planes * D * sizeof(real)) fetch(to, 1);
    }

    INLINE void write(const real* from, void* tensor, int64_t i, int64_t planes) const {
        real* to = of(tensor, i, planes);
        for (int64_t plane = 0; plane < planes; plane++) write_past_cache(from + plane * D, to + plane * D, D.count);
    }
};

// One part of one row: where it lies in states and in a, and memory for it.
template <typename real>
struct Portion {
    int64_t row;
    Cut<real> state, a;
    real *zero, *carry, *pre, *mu, *g_a;  // states, and a step of a

    Portion(const Parts& parts, int64_t number, real* memory)
        : row(number / parts.of_a_row), state{0, parts.width}, a{0, parts.scan->columns}, zero(memory) {
        constexpr int64_t line = LINE / sizeof(real);
        const int64_t lines = parts.width / line, n = parts.of_a_row, part = number % n;
        const int64_t end = part + 1 < n ? lines * (part + 1) / n * line : parts.width;
        const int64_t size = parts.scan->order * parts.width;
        state.first = lines * part / n * line, state.D.count = end - state.first;
        if (parts.scan->columns > 1) a = state;
        carry = zero + size, pre = carry + size, mu = pre + size, g_a = mu + size;
    }
};

template <typename Transition, typename real, int fixed>
void scan_forward(const Scan& scan, Order<fixed> m, const Portion<real>& here, bool past_cache) {
    const int64_t row = here.row;
    const Cut<real>&part = here.state, &of_a = here.a;
    constexpr int64_t ahead = 2;
    const int64_t end = (row + 1) * scan.steps;
    const bool wide = m * part.D * sizeof(real) > 1024;  // a processor foresees less than that by itself
    const real* h = part.of(scan.h0, row, m);
    for (int64_t i = row * scan.steps; i < end; i++) {
        if (wide && i + ahead < end) {
            of_a.fetch_step(scan.a, i + ahead, scan.planes);
            part.fetch_step(scan.u, i + ahead, m);
        }
        real* next = !past_cache ? part.of(scan.h, i, m) : h == here.mu ? here.pre : here.mu;
        if (scan.reset && scan.reset[i]) h = here.zero;
        Transition::apply(of_a.of(scan.a, i, scan.planes), h, part.of(scan.u, i, m), next, m, part.D);
        bound(next, m, part.D, real(LIMIT));
        if (past_cache) part.write(next, scan.h, i, m);
        h = next;
    }
}

// mu = g + carry; whether it, or the state, may be beyond a limit.
template <typename real, int fixed>
bool collect(const real* __restrict g, const real* __restrict carry, const real* __restrict h, real* __restrict mu,
             Order<fixed> m, Channels D) {
    int above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t d = 0; d < D.count; d++) {
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
void scan_backward(const Scan& scan, Order<fixed> m, const Portion<real>& here, bool past_cache) {
    const int64_t row = here.row;
    const Cut<real>&part = here.state, &of_a = here.a;
    const int64_t planes = scan.planes, state = m * part.D, begin = row * scan.steps;
    const int64_t tile = tile_of((2 * state + planes * scan.columns) * sizeof(real));
    const bool a_past_cache = past_cache && scan.columns > 1;
    const void* states = scan.h;
    real* carry = here.carry;
    std::memset(carry, 0, state * sizeof(real));
    for (int64_t i = begin + scan.steps - 1; i >= begin; i--) {
        const int64_t soon = mirrored(i - begin, tile);
        if (soon >= 0) {
            of_a.fetch_step(scan.a, begin + soon, planes);
            part.fetch_step(states, begin + soon, m);
            part.fetch_step(scan.g_h, begin + soon, m);
            part.fetch_page(scan.g_u, begin + soon, m);
            of_a.fetch_page(scan.g_a, begin + soon, planes);
        }
        const bool resets = scan.reset && scan.reset[i];
        const real *h = part.of(states, i, m), *a = of_a.of(scan.a, i, planes);
        const real* before = resets ? here.zero : i > begin ? h - state : part.of(scan.h0, row, m);
        real* mu = past_cache ? here.mu : part.of(scan.g_u, i, m);
        real* g_a = a_past_cache ? here.g_a : of_a.of(scan.g_a, i, planes);
        if (collect(part.of(scan.g_h, i, m), carry, h, mu, m, part.D)) {
            Transition::apply(a, before, part.of(scan.u, i, m), here.pre, m, part.D);
            bound_adjoint(here.pre, mu, m, part.D, real(LIMIT));
            bound(mu, m, part.D, real(GRADIENT_LIMIT));
        }
        Transition::adjoint(a, before, mu, g_a, carry, m, part.D);
        if (past_cache) part.write(mu, scan.g_u, i, m);
        if (a_past_cache) of_a.write(g_a, scan.g_a, i, planes);
        if (resets) std::memset(carry, 0, state * sizeof(real));
    }
    real* g_h0 = part.of(scan.g_h0, row, m);
    for (int64_t i = 0; i < m; i++) std::memcpy(g_h0 + i * part.D, carry + i * part.D, part.D.count * sizeof(real));
}

template <typename Transition, typename real, int fixed>
void scan_parts(const Parts& parts, Order<fixed> m, real* memory, int64_t first, int64_t last) {
    const Scan& scan = *parts.scan;
    std::memset(memory, 0, m * scan.width * sizeof(real));
    for (int64_t number = first; number < last; number++) {
        const Portion<real> here(parts, number, memory);
        if (scan.g_h) scan_backward<Transition>(scan, m, here, parts.past_cache);
        else scan_forward<Transition>(scan, m, here, parts.past_cache);
    }
    if (parts.past_cache) finish_writing();
}

template <bool shared, typename real, int fixed>
void scan_planes(const Parts& parts, Order<fixed> m, real* memory, int64_t first, int64_t last) {
    // Real factors go plane by plane anyway: a fixed order is worth its code for two alone.
    const Order<fixed == 2 ? 2 : 0> few_or_many{m};
    if (parts.scan->planes == 1) return scan_parts<Real<shared>>(parts, few_or_many, memory, first, last);
    if constexpr (fixed == 2)
        if (parts.scan->planes == 2) return scan_parts<Complex<shared>>(parts, m, memory, first, last);
    scan_parts<Matrix<shared>>(parts, m, memory, first, last);
}

template <typename real, int fixed>
void scan_order(const Parts& parts, Order<fixed> m, void* memory, int64_t first, int64_t last) {
    real* numbers = static_cast<real*>(memory);
    if (parts.scan->columns == 1) scan_planes<true>(parts, m, numbers, first, last);
    else scan_planes<false>(parts, m, numbers, first, last);
}

template <typename real>
void scan_either(const Parts& parts, void* memory, int64_t first, int64_t last) {
    switch (parts.scan->order) {
        case 2: return scan_order<real>(parts, Order<2>{}, memory, first, last);
        case 3: return scan_order<real>(parts, Order<3>{}, memory, first, last);
        case 4: return scan_order<real>(parts, Order<4>{}, memory, first, last);
        case 5: return scan_order<real>(parts, Order<5>{}, memory, first, last);
        default: return scan_order<real>(parts, Order<0>{parts.scan->order}, memory, first, last);
    }
}

}  // namespace TARGET
