// One row through one layer, all its steps: the recurrence and what follows it, and the adjoint of both. See block.hpp
// for the equations. σ(h) and the inverses of the norm are kept for the adjoint.
#pragma once

#include "entries.hpp"
#include "transitions.hpp"

namespace TARGET {

// All states, from the entries; whether one was bounded.
template <typename Transition, typename real>
bool walk(const Level<real>& level, const Passage<real>& row, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state, stride = level.size.transition;
    const Entries<real>& entries = row.entries;
    const real* before = level.start;
    bool bounded = false;
    for (int64_t t = 0; t < T; t++) {
        const int64_t e = entries[t];
        real* h = row.h + t * state;
        Transition::apply(entries.a + e * stride, before, entries.u + e * state, h, PAIR, D);
        if (any_above(h, PAIR, D, real(LIMIT))) bound(h, PAIR, D, real(LIMIT)), bounded = true;
        before = h;
    }
    return bounded;
}

// From mu, the gradients of all states, to those of the entries, to which it adds, and of the start. In the end mu
// has what reaches each state from everywhere.
template <typename Transition, typename real>
void walk_adjoint(const Level<real>& level, const Passage<real>& row, real* mu, real* free, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state, stride = level.size.transition;
    const Entries<real>& entries = row.entries;
    real *carry = free, *pre = free + state;
    std::memset(carry, 0, state * sizeof(real));
    for (int64_t t = T - 1; t >= 0; t--) {
        const int64_t e = entries[t];
        const real *a = entries.a + e * stride, *before = t ? row.h + (t - 1) * state : level.start;
        real* __restrict here = mu + t * state;
#pragma omp simd
        for (int64_t d = 0; d < state; d++) here[d] += carry[d];
        if (row.bounded) {
            Transition::apply(a, before, entries.u + e * state, pre, PAIR, D);
            bound_adjoint(pre, here, PAIR, D, real(LIMIT));
        }
        bound(here, PAIR, D, real(GRADIENT_LIMIT));
        real* g_a = entries.g_a + e * stride;
        if (!entries.of_step) {  // mu is g_u
            Transition::adjoint(a, before, here, g_a, carry, PAIR, D);
            continue;
        }
        Transition::template adjoint<true>(a, before, here, g_a, carry, PAIR, D);
        real* __restrict g_u = entries.g_u + e * state;
#pragma omp simd
        for (int64_t d = 0; d < state; d++) g_u[d] += here[d];
    }
    real* __restrict g_start = level.g_start;
    for (int64_t d = 0; d < state; d++) g_start[d] += carry[d];
}

// p = SiLU(h) + s z, or without SiLU, of one step.
template <bool silu, typename real>
void add_skip(const real* __restrict h, const real* __restrict gate, const real* __restrict strength,
              const real* __restrict z, real* __restrict p, int64_t D) {
    for (int64_t plane = 0; plane < 2; plane++, h += D, gate += D, z += D, p += D) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) p[d] = (silu ? h[d] * gate[d] : h[d]) + strength[d] * z[d];
    }
}

// p / n in place, with n = m + ε and m = sqrt(|p|² + 1e-30); 1/n and 1/m are kept.
template <typename real>
void normalise(real* __restrict p, real* __restrict over, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real m = size(p[d], p[D + d]), n = m + real(EPSILON), inverse = 1 / (m * n);
        over[d] = m * inverse, over[D + d] = n * inverse;
        p[d] *= m * inverse, p[D + d] *= m * inverse;
    }
}

// g_p = g / n − out ⟨out, g⟩ / m in place, for out = p / n.
template <typename real>
void normalise_adjoint(const real* __restrict out, const real* __restrict over, real* __restrict g, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real radial = (out[d] * g[d] + out[D + d] * g[D + d]) * over[D + d];
        g[d] = g[d] * over[d] - out[d] * radial;
        g[D + d] = g[D + d] * over[d] - out[D + d] * radial;
    }
}

// Outputs from states; whether one was bounded.
template <bool silu, bool norm, typename real>
bool finish_row(const Level<real>& level, const Passage<real>& row, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state;
    bool bounded = false;
    if (silu) {
        const real* __restrict h = row.h;
        real* __restrict gate = row.gate;
#pragma omp simd
        for (int64_t i = 0; i < T * state; i++) gate[i] = sigmoid(h[i]);
    }
    for (int64_t t = 0; t < T; t++) {
        real* out = row.out + t * state;
        add_skip<silu>(row.h + t * state, row.gate + t * state, level.strength, row.entries.z + row.entries[t] * state, out, D);
        if (norm) normalise(out, row.over + t * state, D);
        else if (any_above(out, PAIR, D, real(OUTPUT_LIMIT))) bound(out, PAIR, D, real(OUTPUT_LIMIT)), bounded = true;
    }
    return bounded;
}

// From g, the gradients of outputs, to mu, those of states, and those of the skip and of its input.
template <bool silu, typename real>
void add_skip_adjoint(const real* __restrict h, const real* __restrict gate, const real* __restrict strength,
                      const real* __restrict z, const real* __restrict g, real* __restrict mu, real* __restrict g_skip,
                      real* __restrict g_z, int64_t D) {
    for (int64_t plane = 0; plane < 2; plane++, h += D, gate += D, z += D, g += D, mu += D, g_z += D) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            mu[d] = silu ? g[d] * gate[d] * (1 + h[d] * (1 - gate[d])) : g[d];
            g_skip[d] += z[d] * g[d];
            g_z[d] += strength[d] * g[d];
        }
    }
}

template <bool silu, bool norm, typename real>
void finish_row_adjoint(const Level<real>& level, const Passage<real>& row, real* g, real* mu, real* free, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state;
    real* g_skip = level.g_skip ? level.g_skip : free;
    for (int64_t t = 0; t < T; t++) {
        const int64_t e = row.entries[t];
        const real *h = row.h + t * state, *gate = row.gate + t * state, *z = row.entries.z + e * state;
        real* here = g + t * state;
        if (norm) normalise_adjoint(row.out + t * state, row.over + t * state, here, D);
        else if (row.bounded) {
            real* p = free + state;
            add_skip<silu>(h, gate, level.strength, z, p, D);
            bound_adjoint(p, here, PAIR, D, real(OUTPUT_LIMIT));
        }
        add_skip_adjoint<silu>(h, gate, level.strength, z, here, mu + t * state, g_skip, row.entries.g_z + e * state, D);
    }
}

// The kinds of a that inner loops are compiled for.
template <typename Function>
INLINE void with_transition(const Extents& size, Function function) {
    const bool complex = size.transition > size.extent;
    if (size.extent == 1) complex ? function(Complex<true>{}) : function(Real<true>{});
    else complex ? function(Complex<false>{}) : function(Real<false>{});
}

template <typename Function>
INLINE void with_finish(const Layer& layer, Function function) {
    using yes = std::true_type;
    using no = std::false_type;
    const bool norm = layer.norm == COMPLEX;
    if (layer.activation == BOUNDARY) norm ? function(yes{}, yes{}) : function(yes{}, no{});
    else norm ? function(no{}, yes{}) : function(no{}, no{});
}

template <typename real>
void layer_forward(const Level<real>& level, Passage<real>& row, int64_t T, const Memory<real>& memory) {
    if (!row.entries.of_step) entries_forward(level, row.entries, T, memory);
    with_transition(level.size, [&](auto kind) { row.bounded = walk<decltype(kind)>(level, row, T); });
    with_finish(level.layer, [&](auto silu, auto norm) { row.bounded |= finish_row<silu, norm>(level, row, T); });
}

// From g, the gradients of outputs, to those of the entries.
template <typename real>
void layer_backward(const Level<real>& level, const Passage<real>& row, int64_t T, real* g, const Memory<real>& memory) {
    with_finish(level.layer, [&](auto silu, auto norm) {
        finish_row_adjoint<silu, norm>(level, row, g, memory.mu, memory.features, T);
    });
    with_transition(level.size, [&](auto kind) {
        walk_adjoint<decltype(kind)>(level, row, memory.mu, memory.features, T);
    });
    if (!row.entries.of_step) entries_backward(level, row.entries, T, memory);
}

}  // namespace TARGET
