// A router: h_t = P_t h_{t-1}, P_t the map with the largest score. In training a map's columns are softmaxes of logits
// over the targets; maps have a row for each source here, columns one for each target. Where rows begin with a start that
// is not trained and has no imaginary part, no state has one. level.hpp has the other names.
//   choice     k = argmax s, with s = K z + c; where it is learned, it has the gradient of P = Σ_k softmax(s)_k P^k
// Adjoint, with x = h_{t-1}:
//   map        g_{P^k} += μ xᵀ                 of the map that was chosen
//   choice     g_{p_k} = ⟨μ, P^k x⟩            of all maps, then through the softmax
//   state      g_x = P_tᵀ μ
#pragma once

#include "entries.hpp"
#include "transitions.hpp"

namespace TARGET {

template <typename real>
void choose(const Level<real>& level, const Entries<real>& entries, int64_t count) {
    const int64_t K = level.layer.choices, state = level.size.state;
    project(level.keys_weight, level.keys_bias, entries.z, entries.scores, count, state, K, state, K, 1);
    for (int64_t e = 0; e < count; e++) {
        const real* scores = entries.scores + e * K;
        int64_t best = 0;
        for (int64_t k = 1; k < K; k++) best = scores[k] > scores[best] ? k : best;
        entries.choice[e] = best;
    }
}

// From the gradients of the maps' shares, which it overwrites, to the gradients of keys and inputs.
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
                    count, state, K, state, K, 1);
}

// Adds P x, or Pᵀ x if the rows of the transpose are given.
template <typename real>
void share(const Level<real>& level, int64_t chosen, const real* x, const real* rows, real* out) {
    const int64_t D = level.size.D, places = level.layer.places;
    for (int64_t first = 0; first < D; first += places)
        add_products(out + first, level.planes, D, x + first, D, 1, rows + (chosen * D + first) * places, places, places,
                     places);
}

// Adds P x of a hard map.
template <typename real>
void move(const Level<real>& level, int64_t chosen, const real* x, real* out) {
    const int64_t D = level.size.D, *targets = level.targets + chosen * D;
    for (int64_t plane = 0; plane < level.planes; plane++, x += D, out += D)
        for (int64_t d = 0; d < D; d++) out[targets[d]] += x[d];
}

// All states of a row.
template <typename real>
void route_row(const Level<real>& level, const Passage<real>& row, int64_t T) {
    const int64_t state = level.size.state;
    const Entries<real>& entries = row.entries;
    for (int64_t t = 0; t < T; t++) {
        const int64_t e = entries[t];
        const real* x = row.before(t, level.start, state);
        real* h = row.h + t * state;
        std::memset(h, 0, state * sizeof(real));
        if (level.targets) move(level, entries.choice[e], x, h);
        else share(level, entries.choice[e], x, level.maps, h);
    }
}

// The gradients of the maps' shares at one step.
template <typename real>
void shares_adjoint(const Level<real>& level, const real* x, const real* mu, real* g_shares) {
    const int64_t D = level.size.D, places = level.layer.places;
    for (int64_t k = 0; k < level.layer.choices; k++)
        for (int64_t d = 0; d < level.planes * D; d++)
            g_shares[k] += x[d] * dot(level.maps + (k * D + d % D) * places, mu + d - d % places, places);
}

// Adds μ xᵀ of all steps to the gradients of maps: a tile of steps at a time, those of one map together. `x` has all
// x of the row, `some` room for two tiles.
template <typename real>
void maps_adjoint(const Level<real>& level, const Entries<real>& entries, const real* mu, const real* x, int64_t T,
                  real* some) {
    const int64_t D = level.size.D, state = level.size.state, places = level.layer.places, planes = level.planes;
    real *left = some, *right = some + TILE * state;
    for (int64_t first = 0; first < T; first += TILE) {
        const int64_t last = T - first < TILE ? T : first + TILE;
        bool done[TILE] = {};
        for (int64_t t = first; t < last; t++) {
            if (done[t - first]) continue;
            const int64_t chosen = entries.choice[entries[t]];
            int64_t count = 0;
            for (int64_t like = t; like < last; like++) {
                if (entries.choice[entries[like]] != chosen) continue;
                done[like - first] = true;
                std::memcpy(left + count * D, x + like * state, planes * D * sizeof(real));
                std::memcpy(right + count * D, mu + like * state, planes * D * sizeof(real));
                count += planes;
            }
            for (int64_t group = 0; group < D; group += places)
                add_products(level.g_maps + (chosen * D + group) * places, places, places, left + group, 1, D,
                             right + group, count, D, places);
        }
    }
}

// As walk_adjoint; `free` has room for a state, `all` for those of the row, `some` for two tiles of them.
template <typename real>
void route_row_adjoint(const Level<real>& level, const Passage<real>& row, real* mu, const real* later, int64_t T,
                       real* free, real* all, real* some) {
    const int64_t state = level.size.state;
    const Entries<real>& entries = row.entries;
    real* carry = free;
    begin_carry(later, carry, state);
    for (int64_t t = T - 1; t >= 0; t--) {
        const int64_t e = entries[t];
        real *here = mu + t * state, *x = all + t * state;
        std::memcpy(x, t ? row.h + (t - 1) * state : level.start, state * sizeof(real));
        add(carry, here, state);
        if (!level.layer.by_token) shares_adjoint(level, x, here, entries.g_scores + e * level.layer.choices);
        std::memset(carry, 0, state * sizeof(real));
        share(level, entries.choice[e], here, level.columns, carry);
    }
    maps_adjoint(level, entries, mu, all, T, some);
    add(carry, level.g_start, state);
}

// softmax(logits / τ) over the targets, from logits (K, G, target, source): maps (K, D, m), and columns as the logits.
template <typename real>
void soften(const Level<real>& level, const real* logits, real temperature, real* maps, real* columns) {
    const int64_t places = level.layer.places, groups = level.layer.choices * level.size.D / places;
    for (int64_t group = 0; group < groups; group++, logits += places * places, columns += places * places)
        for (int64_t source = 0; source < places; source++, maps += places) {
            real most = logits[source], sum = 0;
            for (int64_t target = 1; target < places; target++)
                most = logits[target * places + source] > most ? logits[target * places + source] : most;
            for (int64_t target = 0; target < places; target++)
                maps[target] = (logits[target * places + source] - most) / temperature;
#pragma omp simd reduction(+ : sum)
            for (int64_t target = 0; target < places; target++) sum += maps[target] = exponential(maps[target]);
            for (int64_t target = 0; target < places; target++) columns[target * places + source] = maps[target] /= sum;
        }
}

// The targets of hard maps, (K, D), from logits (K, G, target, source): the first of the largest.
template <typename real>
void harden(const Level<real>& level, const real* logits, int64_t* targets) {
    const int64_t D = level.size.D, places = level.layer.places, groups = level.layer.choices * D / places;
    for (int64_t group = 0; group < groups; group++, logits += places * places)
        for (int64_t source = 0; source < places; source++) {
            int64_t best = 0;
            for (int64_t target = 1; target < places; target++)
                best = logits[target * places + source] > logits[best * places + source] ? target : best;
            *targets++ = group * places % D + best;
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
            for (int64_t target = 0; target < places; target++)
                g_row[target] = row[target] * (g_row[target] - along) / temperature;
        }
        for (int64_t i = 0; i < places; i++)
            for (int64_t j = 0; j < i; j++) {
                const real other = g[i * places + j];
                g[i * places + j] = g[j * places + i], g[j * places + i] = other;
            }
    }
}

}  // namespace TARGET
