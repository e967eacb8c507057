// One row through one layer, all its steps: what enters, the recurrence and what follows it, and the adjoint. level.hpp
// has the equations; a further one is
//   SiLU inside   h_t = SiLU(x_t), x_t = bound(a_t h_{t-1} + u_t, 2^60)      x is kept
#pragma once

#include "back.hpp"
#include "coupling.hpp"
#include "finish.hpp"
#include "rotor.hpp"
#include "router.hpp"

namespace TARGET {

// Returns true if a count was rounded: numbers hold integers up to 2^p, p the binary digits of their type.
template <typename real>
bool rounded_count(const real* __restrict h, const real* __restrict before, const real* __restrict u, int64_t D) {
    constexpr real most = real(int64_t(1) << (Format<real>::mantissa + 1));
    int wrong = 0;
#pragma omp simd reduction(| : wrong)
    for (int64_t d = 0; d < D; d++) {
        wrong |= !(std::fabs(h[d]) <= most && std::fabs(before[d]) <= most && std::fabs(u[d]) <= most);
        wrong |= h[d] - before[d] != u[d];
    }
    return wrong;
}

template <typename real>
void activate(const real* __restrict x, real* __restrict h, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) h[i] = x[i] * sigmoid(x[i]);
}

template <typename real>
void activate_adjoint(const real* __restrict x, real* __restrict g, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const real s = sigmoid(x[i]);
        g[i] *= s * (1 + x[i] * (1 - s));
    }
}

// Computes all states from the entries. Returns true if one was bounded. Without bounding, no state may need it.
template <bool careful, typename Transition, typename real, int fixed>
bool walk(const Level<real>& level, const Passage<real>& row, Order<fixed> m, int64_t T, int64_t& inexact) {
    const int64_t D = level.size.D, state = level.size.state;
    const bool inside = level.layer.activation == Activation::step, counts = level.layer.decay == Decay::count;
    const Entries<real>& entries = row.entries;
    bool bounded = false;
    for (int64_t t = 0; t < T; t++) {
        const int64_t e = entries[t];
        const real *a = entries.a + e * level.size.numbers, *u = entries.u + e * state;
        const real* before = row.before(t, level.start, state);
        real *h = row.h + t * state, *x = inside ? row.gate + t * state : h;
        Transition::apply(a, before, u, x, m, D);
        if (careful && any_above(x, m, D, real(LIMIT))) bound(x, m, D, real(LIMIT)), bounded = true;
        if (counts) inexact |= rounded_count(h, before, u, D);
        if (inside) activate(x, h, state);
    }
    return bounded;
}

// Returns true if a gradient that a state passes back could exceed its limit, judged by T of them, the gradients from
// later steps, and the largest |a|.
template <typename real>
bool may_be_large(const Level<real>& level, const Passage<real>& row, const real* mu, const real* later, int64_t T) {
    const Extents& size = level.size;
    real most = 1;
    if (level.layer.activation == Activation::step || (level.layer.decay == Decay::softplus && size.planes > 2))
        return true;
    for (int64_t t = 0; level.layer.decay == Decay::softplus && t < T; t++) {
        const real* a = row.entries.a + row.entries[t] * size.numbers;
        for (int64_t i = 0; i < size.extent; i++) {
            const real square = a[i] * a[i] + (size.planes == 2 ? a[size.extent + i] * a[size.extent + i] : real(0));
            most = square > most ? square : most;
        }
    }
    const double growth = std::pow(double(most), 0.5 * double(T)) * 2 * double(T + 1);
    const real limit = real(GRADIENT_LIMIT / growth);
    return !(growth < GRADIENT_LIMIT) || !all_below(mu, T * size.state, limit, size.m) ||
           (later && !all_below(later, size.state, limit, size.m));
}

// From mu, the gradients of all states, to the gradients of the start and of the entries, to which it adds. At the end
// mu holds the full gradients of a_t h_{t-1} + u_t, unless entries are tokens. `free` has room for two states.
template <bool tokens, typename Transition, typename real, int fixed>
void walk_adjoint(const Level<real>& level, const Passage<real>& row, Order<fixed> m, real* mu, const real* later,
                  real* free, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state;
    const bool inside = level.layer.activation == Activation::step, careful = may_be_large(level, row, mu, later, T);
    const Entries<real>& entries = row.entries;
    real *carry = free, *pre = free + state;
    begin_carry(later, carry, state);
    for (int64_t t = T - 1; t >= 0; t--) {
        const int64_t e = entries[t];
        const real *a = entries.a + e * level.size.numbers, *before = t ? row.h + (t - 1) * state : level.start;
        const real* x = row.gate + t * state;
        real *here = mu + t * state, *g_a = entries.g_a + e * level.size.numbers, *g_u = entries.g_u + e * state;
        if (inside || row.bounded || careful) {
            add(carry, here, state);
            std::memset(carry, 0, state * sizeof(real));
            if (inside) activate_adjoint(x, here, state);
            if (row.bounded) {
                Transition::apply(a, before, entries.u + e * state, pre, m, D);
                bound_adjoint(pre, here, m, D, real(LIMIT));
            }
            if (careful) bound(here, m, D, real(GRADIENT_LIMIT));
        }
        back<tokens>(Transition{}, a, before, here, g_a, g_u, carry, m, D);
    }
    add(carry, level.g_start, state);
}

// The kinds of a that inner loops are compiled for.
template <typename Function>
INLINE void with_transition(const Extents& size, Function function) {
    const bool shared = size.extent == 1;
    if (size.m > 2)
        with_order(size.m, [&](auto m) { shared ? function(Matrix<true>{}, m) : function(Matrix<false>{}, m); });
    else if (size.planes == 2) shared ? function(Complex<true>{}, PAIR) : function(Complex<false>{}, PAIR);
    else shared ? function(Real<true>{}, PAIR) : function(Real<false>{}, PAIR);
}

// The a and u of the recurrence for some inputs, each on its own.
template <typename real>
void enter(const Level<real>& level, const Entries<real>& entries, int64_t count, const Memory<real>& memory) {
    if (level.layer.places) choose(level, entries, count);
    else entries_forward(level, entries, count, memory);
}

template <typename real>
void enter_adjoint(const Level<real>& level, const Entries<real>& entries, int64_t count, const Memory<real>& memory) {
    if (!level.layer.places) entries_backward(level, entries, count, memory);
    else if (!level.layer.by_token) choose_adjoint(level, entries, count, memory.free);
}

template <typename real>
void layer_forward(const Level<real>& level, Passage<real>& row, int64_t T, const Read& read,
                   const Memory<real>& memory, int64_t& inexact) {
    if (!row.entries.of_step) {
        enter(level, row.entries, T, memory);
        couple(level, row.entries, T, memory.coupled);
    }
    row.bounded = false;
    const auto below = [&](const real* x, int64_t steps, double limit) {
        return all_below(x, steps * level.size.state, real(limit), level.size.m);
    };
    // States of switches lie between a start and points of length 1.
    const bool small = level.replaces() && !level.layer.rank && (row.parent || below(level.start, 1, LIMIT));
    if (is_rotor(level) && !row.parent) {
        rotor_row(level, row, T);
        if ((small || below(row.h, T, LIMIT)) && below(row.out, T, OUTPUT_LIMIT)) return;
    }
    if (level.layer.places) route_row(level, row, T);
    else
        with_transition(level.size, [&](auto kind, auto m) {
            using Kind = decltype(kind);
            walk<false, Kind>(level, row, m, T, inexact);
            const real* x = level.layer.activation == Activation::step ? row.gate : row.h;
            if (!small && !below(x, T, LIMIT))
                row.bounded = walk<true, Kind>(level, row, m, T, inexact);
        });
    with_order(level.size.m, [&](auto m) {
        with_finish(level.layer, [&](auto silu, auto norm) {
            row.bounded |= finish_row<silu, norm>(level, row, m, read, T);
        });
    });
}

// From g, the gradients of the outputs, and the gradient of the last state from later steps, to the gradients of the
// entries and the start.
template <typename real>
void layer_backward(const Level<real>& level, Passage<real>& row, int64_t T, const Read& read, real* g,
                    const real* later, const Memory<real>& memory) {
    Entries<real>& entries = row.entries;
    real* mu = level.layer.activation == Activation::boundary ? memory.mu : g;
    if (!entries.of_step) entries.g_u = mu;
    if (is_rotor(level) && !row.bounded && !may_be_large(level, row, g, later, T)) {
        real* g_skip = level.g_skip ? level.g_skip : memory.free;
        if (entries.of_step) return rotor_row_adjoint<true>(level, row, g, later, g_skip, T);
        rotor_row_adjoint<false>(level, row, g, later, g_skip, T);
        couple_adjoint(level, entries, T, memory.coupled);
        return enter_adjoint(level, entries, T, memory);
    }
    with_order(level.size.m, [&](auto m) {
        with_finish(level.layer, [&](auto silu, auto norm) {
            finish_row_adjoint<silu, norm>(level, row, m, g, mu, memory.free, read, T);
        });
    });
    if (level.layer.places) {
        if (!entries.of_step) {  // it adds to these
            std::memset(entries.g_scores, 0, T * level.layer.choices * sizeof(real));
        }
        route_row_adjoint(level, row, mu, later, T, memory.free, row.over, memory.tile);
    } else {
        with_transition(level.size, [&](auto kind, auto m) {
            if (entries.of_step) walk_adjoint<true, decltype(kind)>(level, row, m, mu, later, memory.free, T);
            else walk_adjoint<false, decltype(kind)>(level, row, m, mu, later, memory.free, T);
        });
    }
    if (entries.of_step) return;
    couple_adjoint(level, entries, T, memory.coupled);
    enter_adjoint(level, entries, T, memory);
}

}  // namespace TARGET
