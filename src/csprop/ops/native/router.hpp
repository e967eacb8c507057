// A router in training: h_t = P_t D_t h_{t-1}, P_t the map with the largest score. A map's columns are softmaxes of
// logits over the targets; maps have a row for each source here. block.hpp has the other names.
//   choice     k = argmax s, with s = K z + c; where it is learned, its gradient is that of P = Σ_k softmax(s)_k P^k
// Adjoint, with x = D_t h_{t-1}:
//   map        g_{P^k} += μ xᵀ                 of the map that was chosen
//   choice     g_{p_k} = ⟨μ, P^k x⟩            of all maps, then through the softmax
//   state      g_x = P_tᵀ μ                    then through D_t as through a complex a
#pragma once

#include "entries.hpp"
#include "transitions.hpp"

namespace TARGET {

template <typename real>
void choose(const Level<real>& level, const Entries<real>& entries, int64_t count) {
    const int64_t K = level.layer.choices, state = level.size.state;
    project(level.keys_weight, level.keys_bias, entries.z, entries.scores, count, state, K, state);
    for (int64_t e = 0; e < count; e++) {
        const real* scores = entries.scores + e * K;
        int64_t best = 0;
        for (int64_t k = 1; k < K; k++) best = scores[k] > scores[best] ? k : best;
        entries.choice[e] = best;
    }
}

// From the gradients of the shares that maps have, which it changes, to those of keys and inputs.
template <typename real>
void choose_adjoint(const Level<real>& level, const Entries<real>& entries, int64_t count, real* __restrict shares) {
    const int64_t K = level.layer.choices, state = level.size.state;
    for (int64_t e = 0; e < count; e++) {
        const real *scores = entries.scores + e * K, most = scores[entries.choice[e]];
        real *g = entries.g_scores + e * K, sum = 0, along = 0;
        for (int64_t k = 0; k < K; k++) shares[k] = exponential(scores[k] - most), sum += shares[k];
        for (int64_t k = 0; k < K; k++) shares[k] /= sum, along += shares[k] * g[k];
        for (int64_t k = 0; k < K; k++) g[k] = shares[k] * (g[k] - along);
    }
    project_adjoint(level.keys_weight, level.g_keys_weight, level.g_keys_bias, entries.z, entries.g_scores, entries.g_z,
                    count, state, K, state);
}

// Calls a function with every source (plane, channel), its row of a map, and its targets' place in a state.
template <typename real, typename Function>
INLINE void each_source(const Level<real>& level, const real* map, Function function) {
    const int64_t D = level.size.D, places = level.layer.places;
    for (int64_t plane = 0; plane < 2; plane++)
        for (int64_t d = 0; d < D; d++) function(plane * D + d, map + d * places, plane * D + d / places * places);
}

template <typename real>
const real* turned(const Level<real>& level, const real* a, const real* h, const real* zero, real* x) {
    if (level.layer.rotate != STATE) return h;
    if (level.size.extent == 1) Complex<true>::apply(a, h, zero, x, PAIR, level.size.D);
    else Complex<false>::apply(a, h, zero, x, PAIR, level.size.D);
    return x;
}

// All states of a row; `free` has room for two.
template <typename real>
void route_row(const Level<real>& level, const Passage<real>& row, int64_t T, real* free) {
    const int64_t D = level.size.D, state = level.size.state, places = level.layer.places;
    const Entries<real>& entries = row.entries;
    std::memset(free, 0, state * sizeof(real));
    for (int64_t t = 0; t < T; t++) {
        const int64_t e = entries[t];
        const real* before = t ? row.h + (t - 1) * state : level.start;
        const real* x = turned(level, entries.a + e * level.size.numbers, before, free, free + state);
        real* h = row.h + t * state;
        std::memset(h, 0, state * sizeof(real));
        each_source(level, level.maps + entries.choice[e] * D * places, [&](int64_t d, const real* shares, int64_t first) {
            const real content = x[d];
            if (content == 0) return;
            const real* __restrict from = shares;
            real* __restrict to = h + first;
#pragma omp simd
            for (int64_t target = 0; target < places; target++) to[target] += content * from[target];
        });
    }
}

// From μ of one step to g_x and the gradients of the map, and of all shares where the choice is learned.
template <typename real>
void route_adjoint(const Level<real>& level, const real* x, const real* mu, int64_t chosen, real* g_x, real* g_shares) {
    const int64_t D = level.size.D, places = level.layer.places, size = D * places;
    each_source(level, level.maps + chosen * size, [&](int64_t d, const real* shares, int64_t first) {
        const real content = x[d];
        g_x[d] = dot(shares, mu + first, places);
        if (content == 0) return;
        const real* __restrict from = mu + first;
        real* __restrict to = level.g_maps + chosen * size + (shares - level.maps - chosen * size);
#pragma omp simd
        for (int64_t target = 0; target < places; target++) to[target] += content * from[target];
    });
    for (int64_t k = 0; g_shares && k < level.layer.choices; k++)
        each_source(level, level.maps + k * size, [&](int64_t d, const real* shares, int64_t first) {
            if (x[d] != 0) g_shares[k] += x[d] * dot(shares, mu + first, places);
        });
}

// As walk_adjoint; `free` has room for four states.
template <typename real>
void route_row_adjoint(const Level<real>& level, const Passage<real>& row, real* mu, int64_t T, real* free) {
    const int64_t D = level.size.D, state = level.size.state;
    const Entries<real>& entries = row.entries;
    real *zero = free, *carry = free + state, *g_x = free + 2 * state;
    std::memset(free, 0, 2 * state * sizeof(real));
    for (int64_t t = T - 1; t >= 0; t--) {
        const int64_t e = entries[t];
        const real *a = entries.a + e * level.size.numbers, *before = t ? row.h + (t - 1) * state : level.start;
        const real* x = turned(level, a, before, zero, free + 3 * state);
        real* here = mu + t * state;
        for (int64_t d = 0; d < state; d++) here[d] += carry[d];
        real* g_shares = level.layer.by_token ? nullptr : entries.g_scores + e * level.layer.choices;
        route_adjoint(level, x, here, entries.choice[e], g_x, g_shares);
        real* g_a = entries.g_a + e * level.size.numbers;
        if (level.layer.rotate != STATE) std::memcpy(carry, g_x, state * sizeof(real));
        else if (level.size.extent == 1) Complex<true>::template adjoint<true>(a, before, g_x, g_a, carry, PAIR, D);
        else Complex<false>::template adjoint<true>(a, before, g_x, g_a, carry, PAIR, D);
    }
    for (int64_t d = 0; d < state; d++) level.g_start[d] += carry[d];
}

// softmax(logits / τ) over the targets, (K, D, m), from logits (K, G, target, source).
template <typename real>
void soften(const Level<real>& level, const real* logits, real temperature, real* maps) {
    const int64_t places = level.layer.places, groups = level.layer.choices * level.size.D / places;
    for (int64_t group = 0; group < groups; group++, logits += places * places)
        for (int64_t source = 0; source < places; source++, maps += places) {
            real most = logits[source], sum = 0;
            for (int64_t target = 1; target < places; target++)
                most = logits[target * places + source] > most ? logits[target * places + source] : most;
            for (int64_t target = 0; target < places; target++)
                sum += maps[target] = exponential((logits[target * places + source] - most) / temperature);
            for (int64_t target = 0; target < places; target++) maps[target] /= sum;
        }
}

// In place from the gradients of maps to those of logits.
template <typename real>
void soften_adjoint(const Level<real>& level, real temperature, real* g) {
    const int64_t places = level.layer.places, groups = level.layer.choices * level.size.D / places;
    const real* maps = level.maps;
    for (int64_t group = 0; group < groups; group++, g += places * places, maps += places * places) {
        for (int64_t source = 0; source < places; source++) {
            const real* row = maps + source * places;
            real *g_row = g + source * places, along = dot(row, g_row, places);
            for (int64_t target = 0; target < places; target++) g_row[target] = row[target] * (g_row[target] - along) / temperature;
        }
        for (int64_t i = 0; i < places; i++)
            for (int64_t j = 0; j < i; j++) {
                const real other = g[i * places + j];
                g[i * places + j] = g[j * places + i], g[j * places + i] = other;
            }
    }
}

}  // namespace TARGET
