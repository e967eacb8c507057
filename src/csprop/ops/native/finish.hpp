// The part of a layer after its recurrence, for all steps of a row, and its adjoint. level.hpp has the equations;
// further ones are
//   recall       p_t += r h_{t-1}                         in every channel
//   LayerNorm    out = k (x − mean x) / sqrt(var x + 1e-5) + c      of x = bound(p, 2^20), all planes and channels
// with the adjoint, x̂ being x less its mean and divided by its deviation s, and ĝ = k g,
//   g_x = (ĝ − mean ĝ − x̂ mean(x̂ ĝ)) / s      g_k += x̂ g      g_c += g
// The adjoint reuses σ(h), and from the norm 1/n and 1/m, or x̂.
#pragma once

#include "level.hpp"

namespace TARGET {

constexpr double VARIANCE = 1e-5;

// The steps of a row whose outputs are read: all of them, or a list.
struct Read {
    const int64_t *steps, count;
    INLINE int64_t operator[](int64_t i) const { return steps ? steps[i] : i; }

    // Their first numbers and counts: of all at once, or one by one.
    template <typename Function>
    INLINE void each_piece(int64_t T, int64_t state, Function function) const {
        if (count == T) return function(0, T * state);
        for (int64_t i = 0; i < count; i++) function(steps[i] * state, state);
    }
};

// Pieces of a row at one step.
template <typename real>
struct Moment {
    const real *h, *before, *z;
    real *gate, *out, *over;

    INLINE Moment(const Level<real>& level, const Passage<real>& row, int64_t t) {
        const int64_t state = level.size.state, offset = t * state;
        h = row.h + offset, before = row.before(t, level.start, state);
        z = row.entries.z + row.entries[t] * state;
        gate = row.gate + offset, out = row.out + offset, over = row.over + offset;
    }
};

// p of one step, or p / n with n = l + ε and l = sqrt(|p|² + 1e-30). Stores 1/n and 1/l.
template <bool silu, bool norm, bool recalls, typename real, int fixed>
void gather(const Level<real>& level, const Moment<real>& now, Order<fixed> m, real* __restrict out) {
    const int64_t D = level.size.D;
    const real *__restrict h = now.h, *__restrict z = now.z, *__restrict before = now.before;
    const real *__restrict strength = level.strength, *__restrict recall = level.recall;
    const real* __restrict gate = now.gate;
    real* __restrict over = now.over;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        real sum = real(TINY);
        m.each([&](int64_t i) {
            const int64_t k = i * D + d;
            real p = (silu ? h[k] * gate[k] : h[k]) + strength[d] * z[k];
            if (recalls) p += recall[d] * before[k];
            if (norm) sum += p * p;
            out[k] = p;
        });
        if (norm) {
            const real l = std::sqrt(sum), n = l + real(EPSILON), inverse = 1 / (l * n);
            // One division serves both, unless l n may be infinite: a recalled state is not bounded.
            const real scale = recalls ? 1 / n : l * inverse;
            over[d] = scale, over[D + d] = recalls ? 1 / l : n * inverse;
            m.each([&](int64_t i) { out[i * D + d] *= scale; });
        }
    }
}

template <bool silu, bool norm, typename real, int fixed>
void gather(const Level<real>& level, const Moment<real>& now, Order<fixed> m, real* out) {
    if (level.recall) gather<silu, norm, true>(level, now, m, out);
    else gather<silu, norm, false>(level, now, m, out);
}

// From g = g_out, which it changes to g_p = g / n − out ⟨out, g⟩ / l where there is a norm, to mu, the gradient of
// the state, and those of the skip and of the input. Where entries are tokens, g_p is summed in place of the gradient
// of the input: skip_adjoint does the rest. mu is g without SiLU.
template <bool silu, bool norm, bool tokens, typename real, int fixed>
void gather_adjoint(const Level<real>& level, const Moment<real>& now, Order<fixed> m, real* __restrict g,
                    real* __restrict mu, real* __restrict g_skip, real* __restrict g_z) {
    const int64_t D = level.size.D;
    const real *__restrict h = now.h, *__restrict z = now.z, *__restrict strength = level.strength;
    const real *__restrict gate = now.gate, *__restrict out = now.out, *__restrict over = now.over;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        real radial = 0, by_skip = 0;
        if (norm) {
            m.each([&](int64_t i) { radial += out[i * D + d] * g[i * D + d]; });
            radial *= over[D + d];
        }
        m.each([&](int64_t i) {
            const int64_t k = i * D + d;
            const real g_p = norm ? g[k] * over[d] - out[k] * radial : g[k];
            if (tokens) g_z[k] += g_p;
            else g_z[k] = strength[d] * g_p, by_skip += z[k] * g_p;
            if (norm) g[k] = g_p;
            if (silu) mu[k] = g_p * gate[k] * (1 + h[k] * (1 - gate[k]));
        });
        if (!tokens) g_skip[d] += by_skip;
    }
}

template <typename real>
real deviation(const real* x, int64_t n, real mean) {
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return std::sqrt(sum / real(n) + real(VARIANCE));
}

// LayerNorm in place; x̂ is kept.
template <typename real>
void rescale(const Level<real>& level, real* __restrict x, real* __restrict kept) {
    const int64_t n = level.size.state;
    const real mean = total(x, n) / real(n), s = deviation(x, n, mean);
    const real *__restrict weight = level.norm_weight, *__restrict bias = level.norm_bias;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        kept[i] = (x[i] - mean) / s;
        x[i] = weight[i] * kept[i] + bias[i];
    }
}

// In place from g_out to g_x; x is what was rescaled.
template <typename real>
void rescale_adjoint(const Level<real>& level, const real* x, const real* __restrict kept, real* __restrict g) {
    const int64_t n = level.size.state;
    const real s = deviation(x, n, total(x, n) / real(n));
    const real* __restrict weight = level.norm_weight;
    real *__restrict g_weight = level.g_norm_weight, *__restrict g_bias = level.g_norm_bias, mean = 0, along = 0;
#pragma omp simd reduction(+ : mean, along)
    for (int64_t i = 0; i < n; i++) {
        g_weight[i] += kept[i] * g[i];
        g_bias[i] += g[i];
        g[i] *= weight[i];
        mean += g[i], along += kept[i] * g[i];
    }
    mean /= real(n), along /= real(n);
#pragma omp simd
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

template <typename real>
void open(const real* __restrict h, real* __restrict gate, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) gate[i] = sigmoid(h[i]);
}

// Computes outputs from states. Returns true if one was bounded.
template <bool silu, bool norm, typename real, int fixed>
bool finish_row(const Level<real>& level, const Passage<real>& row, Order<fixed> m, const Read& read, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state;
    bool bounded = false;
    if (silu) read.each_piece(T, state, [&](int64_t first, int64_t n) { open(row.h + first, row.gate + first, n); });
    for (int64_t i = 0; i < read.count; i++) {
        const Moment<real> now(level, row, read[i]);
        gather<silu, norm>(level, now, m, now.out);
    }
    if (!norm)
        read.each_piece(T, state, [&](int64_t first, int64_t n) {
            bounded |= !all_below(row.out + first, n, real(OUTPUT_LIMIT), m);
        });
    for (int64_t i = 0; bounded && i < read.count; i++) bound(row.out + read[i] * state, m, D, real(OUTPUT_LIMIT));
    for (int64_t i = 0; level.norm_weight && i < read.count; i++)
        rescale(level, row.out + read[i] * state, row.over + read[i] * state);
    return bounded;
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
                        real* free, const Read& read, int64_t T) {
    const int64_t D = level.size.D, state = level.size.state;
    const bool tokens = row.entries.of_step;
    real *g_skip = level.g_skip ? level.g_skip : free, *p = free + state;
    if (read.count < T) {  // the other steps have no gradient
        if (silu) std::memset(mu, 0, T * state * sizeof(real));
        if (!tokens) std::memset(row.entries.g_z, 0, T * state * sizeof(real));
    }
    for (int64_t i = 0; i < read.count; i++) {
        const int64_t t = read[i];
        const Moment<real> now(level, row, t);
        real *here = g + t * state, *g_z = row.entries.g_z + row.entries[t] * state;
        if (!norm && (row.bounded || level.norm_weight)) {
            gather<silu, false>(level, now, m, p);
            if (level.norm_weight) {
                std::memcpy(free, p, state * sizeof(real));
                bound(free, m, D, real(OUTPUT_LIMIT));
                rescale_adjoint(level, free, now.over, here);
            }
            bound_adjoint(p, here, m, D, real(OUTPUT_LIMIT));
        }
        if (tokens) gather_adjoint<silu, norm, true>(level, now, m, here, mu + t * state, g_skip, g_z);
        else gather_adjoint<silu, norm, false>(level, now, m, here, mu + t * state, g_skip, g_z);
        if (level.recall) recall_adjoint(level, now.before, here, t ? mu + (t - 1) * state : level.g_start);
    }
}

// The kinds that inner loops are compiled for.
template <typename Function>
INLINE void with_finish(const Layer& layer, Function function) {
    using yes = std::true_type;
    using no = std::false_type;
    const bool norm = layer.norm == Norm::complex;
    if (layer.activation == Activation::boundary) norm ? function(yes{}, yes{}) : function(yes{}, no{});
    else norm ? function(no{}, yes{}) : function(no{}, no{});
}

}  // namespace TARGET
