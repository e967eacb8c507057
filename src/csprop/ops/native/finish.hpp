// What follows the recurrence of a layer, for all steps of a row, and its adjoint; block.hpp has the equations. Beside
// them
//   recall       p_t += r h_{t-1}                         in every channel
//   LayerNorm    out = k (x − mean x) / sqrt(var x + 1e-5) + c      of x = bound(p, 2^20), all planes and channels
// with the adjoint, x̂ being x less its mean and divided by its deviation s, and ĝ = k g,
//   g_x = (ĝ − mean ĝ − x̂ mean(x̂ ĝ)) / s      g_k += x̂ g      g_c += g
// σ(h) is kept for the adjoint, and of the norm 1/n and 1/m, or x̂.
#pragma once

#include "level.hpp"

namespace TARGET {

constexpr double VARIANCE = 1e-5;

// p of one step.
template <bool silu, typename real>
void gather(const Level<real>& level, const Passage<real>& row, int64_t t, real* __restrict p) {
    const int64_t D = level.size.D, state = level.size.state;
    const real *__restrict h = row.h + t * state, *__restrict gate = row.gate + t * state;
    const real *__restrict z = row.entries.z + row.entries[t] * state, *__restrict strength = level.strength;
    const real *__restrict before = row.before(t, level.start, state), *__restrict recall = level.recall;
    for (int64_t plane = 0; plane < level.size.m; plane++, h += D, gate += D, z += D, p += D, before += D) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) p[d] = (silu ? h[d] * gate[d] : h[d]) + strength[d] * z[d];
        if (!recall) continue;
#pragma omp simd
        for (int64_t d = 0; d < D; d++) p[d] += recall[d] * before[d];
    }
}

// p / n in place, with n = l + ε and l = sqrt(|p|² + 1e-30); 1/n and 1/l are kept.
template <typename real, int fixed>
void normalise(real* __restrict p, real* __restrict over, Order<fixed> m, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        real sum = real(TINY);
        m.each([&](int64_t i) { sum += p[i * D + d] * p[i * D + d]; });
        const real l = std::sqrt(sum), n = l + real(EPSILON), inverse = 1 / (l * n), scale = l * inverse;
        over[d] = scale, over[D + d] = n * inverse;
        m.each([&](int64_t i) { p[i * D + d] *= scale; });
    }
}

// g_p = g / n − out ⟨out, g⟩ / l in place, for out = p / n.
template <typename real, int fixed>
void normalise_adjoint(const real* __restrict out, const real* __restrict over, real* __restrict g, Order<fixed> m,
                       int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        real radial = 0;
        m.each([&](int64_t i) { radial += out[i * D + d] * g[i * D + d]; });
        radial *= over[D + d];
        m.each([&](int64_t i) { g[i * D + d] = g[i * D + d] * over[d] - out[i * D + d] * radial; });
    }
}

template <typename real>
real deviation(const real* x, int64_t n, real mean) {
    real sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return std::sqrt(sum / real(n) + real(VARIANCE));
}

// LayerNorm in place; x̂ is kept.
template <typename real>
void rescale(const Level<real>& level, real* __restrict x, real* __restrict kept) {
    const int64_t n = level.size.state;
    const real mean = total(x, n) / real(n), s = deviation(x, n, mean);
    for (int64_t i = 0; i < n; i++) {
        kept[i] = (x[i] - mean) / s;
        x[i] = level.norm_weight[i] * kept[i] + level.norm_bias[i];
    }
}

// In place from g_out to g_x; x is what was rescaled.
template <typename real>
void rescale_adjoint(const Level<real>& level, const real* x, const real* __restrict kept, real* __restrict g) {
    const int64_t n = level.size.state;
    const real s = deviation(x, n, total(x, n) / real(n));
    real mean = 0, along = 0;
    for (int64_t i = 0; i < n; i++) {
        level.g_norm_weight[i] += kept[i] * g[i];
        level.g_norm_bias[i] += g[i];
        g[i] *= level.norm_weight[i];
        mean += g[i] / real(n), along += kept[i] * g[i] / real(n);
    }
    for (int64_t i = 0; i < n; i++) g[i] = (g[i] - mean - kept[i] * along) / s;
}

// From g_p to the gradients of s and of z, which it sets.
template <typename real>
void skip_adjoint(const Level<real>& level, const real* __restrict z, const real* __restrict g, real* __restrict g_skip,
                  real* __restrict g_z) {
    const int64_t D = level.size.D;
    const real* __restrict strength = level.strength;
    for (int64_t plane = 0; plane < level.size.m; plane++, z += D, g += D, g_z += D) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            g_skip[d] += z[d] * g[d];
            g_z[d] = strength[d] * g[d];
        }
    }
}

// Outputs from states; whether one was bounded.
template <bool silu, bool norm, typename real, int fixed>
bool finish_row(const Level<real>& level, const Passage<real>& row, Order<fixed> m, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state;
    if (silu) {
        const real* __restrict h = row.h;
        real* __restrict gate = row.gate;
#pragma omp simd
        for (int64_t i = 0; i < T * state; i++) gate[i] = sigmoid(h[i]);
    }
    for (int64_t t = 0; t < T; t++) {
        gather<silu>(level, row, t, row.out + t * state);
        if (norm) normalise(row.out + t * state, row.over + t * state, m, D);
    }
    const bool bounded = !norm && !all_below(row.out, T * state, real(OUTPUT_LIMIT), m);
    for (int64_t t = 0; bounded && t < T; t++) bound(row.out + t * state, m, D, real(OUTPUT_LIMIT));
    for (int64_t t = 0; level.norm_weight && t < T; t++) rescale(level, row.out + t * state, row.over + t * state);
    return bounded;
}

// From g_p of one step to mu, the gradient of its state, and those of the skip and of its input. Where entries are
// tokens, g_p is summed in place of the gradient of the input: skip_adjoint does the rest. mu is g without SiLU.
template <bool silu, typename real>
void gather_adjoint(const Level<real>& level, const Passage<real>& row, int64_t t, const real* g, real* mu,
                    real* g_skip) {
    const int64_t D = level.size.D, state = level.size.state, e = row.entries[t];
    real* g_z = row.entries.g_z + e * state;
    if (row.entries.of_step) add(g, g_z, state);
    else skip_adjoint(level, row.entries.z + e * state, g, g_skip, g_z);
    if (!silu) return;
    const real *__restrict h = row.h + t * state, *__restrict gate = row.gate + t * state, *__restrict from = g;
    real* __restrict to = mu;
#pragma omp simd
    for (int64_t i = 0; i < level.size.m * D; i++) to[i] = from[i] * gate[i] * (1 + h[i] * (1 - gate[i]));
}

// From g_p of one step to the gradients of r and of the state before it.
template <typename real>
void recall_adjoint(const Level<real>& level, const real* __restrict before, const real* __restrict g,
                    real* __restrict g_before) {
    const int64_t D = level.size.D;
    const real* __restrict recall = level.recall;
    real* __restrict g_recall = level.g_recall;
    for (int64_t plane = 0; plane < level.size.m; plane++, before += D, g += D, g_before += D) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            g_recall[d] += before[d] * g[d];
            g_before[d] += recall[d] * g[d];
        }
    }
}

// From g, the gradients of outputs, which it changes, to mu, those of states. `free` has room for two states.
template <bool silu, bool norm, typename real, int fixed>
void finish_row_adjoint(const Level<real>& level, const Passage<real>& row, Order<fixed> m, real* g, real* mu,
                        real* free, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state;
    real *g_skip = level.g_skip ? level.g_skip : free, *p = free + state;
    for (int64_t t = 0; t < T; t++) {
        real *here = g + t * state, *over = row.over + t * state;
        if (norm) normalise_adjoint(row.out + t * state, over, here, m, D);
        if (!norm && (row.bounded || level.norm_weight)) {
            gather<silu>(level, row, t, p);
            if (level.norm_weight) {
                std::memcpy(free, p, state * sizeof(real));
                bound(free, m, D, real(OUTPUT_LIMIT));
                rescale_adjoint(level, free, over, here);
            }
            bound_adjoint(p, here, m, D, real(OUTPUT_LIMIT));
        }
        gather_adjoint<silu>(level, row, t, here, mu + t * state, g_skip);
        if (level.recall)
            recall_adjoint(level, t ? row.h + (t - 1) * state : level.start, here,
                           t ? mu + (t - 1) * state : level.g_start);
    }
}

// The kinds that inner loops are compiled for.
template <typename Function>
INLINE void with_finish(const Layer& layer, Function function) {
    using yes = std::true_type;
    using no = std::false_type;
    const bool norm = layer.norm == COMPLEX;
    if (layer.activation == BOUNDARY) norm ? function(yes{}, yes{}) : function(yes{}, no{});
    else norm ? function(no{}, yes{}) : function(no{}, no{});
}

}  // namespace TARGET
