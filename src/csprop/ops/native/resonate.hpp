// Resonators: channels that turn by a fixed angle, decay and are read as their inputs say, and the adjoint.
//
// Glossary                                                    shape, real numbers
//   entry    z (two planes), κ and r (two planes) of a step   (E, 5, D), E = B · T, or the size of a table
//   index    the entry of each step; absent: its own          (B, T)
//   turn     e^{iθ}, one for each channel                     (2, D)
//   h        the state                                        (B, T, 2, D)
//   y        what is read of it                               (B, T, D)
//
// Forward, with α = σ(κ), γ = √(1 − α²) and s = SiLU(r) on each plane:
//   h_t = α e^{iθ} h_{t-1} + γ z_t      h_{t-1} = 0 where a reset stands
//   y_t = Re(conj(s) h_t)
// As α < 1, no state grows faster than the sum of what enters, and nothing needs a bound.
//
// Adjoint, with ⟨x, y⟩ = Re(conj(x) y), w = e^{iθ} h_{t-1} and λ the whole gradient of h_t:
//   λ_t = g_y s + α_{t+1} e^{-iθ} λ_{t+1}                     the last term goes to h_0 at the first step
//   g_z = γ λ      g_γ = ⟨z, λ⟩      g_α = ⟨w, λ⟩ − (α/γ) g_γ      g_κ = α (1 − α) g_α
//   g_turn += α conj(h_{t-1}) λ      g_s = g_y h, through SiLU on each plane
// Gates are computed again. Where an index stands, gradients of steps add up in the rows of a table, of which
// every part of the batch has its own.
#pragma once

#include "layout.hpp"
#include "planes.hpp"

namespace TARGET {

// √(1 − α²) from α and β = 1 − α.
template <typename real>
INLINE real entrance(real alpha, real beta) { return std::sqrt(beta * (1 + alpha)); }

template <typename real>
void resonate_forward_row(const Resonate& work, int64_t row) {
    const int64_t D = work.width;
    const real *__restrict cos = at<real>(work.turn, 0), *__restrict sin = cos + D;
    const real* h = at<real>(work.h0, row * 2 * D);
    for (int64_t t = 0; t < work.steps; t++) {
        const int64_t i = row * work.steps + t;
        const real* __restrict entry = at<real>(work.entries, (work.index ? work.index[i] : i) * 5 * D);
        const real* __restrict before = h;
        const real kept = work.reset && work.reset[i] ? 0 : 1;
        real* __restrict next = at<real>(work.h, (work.keep ? i : 2 * row + t % 2) * 2 * D);
        real* __restrict y = at<real>(work.y, i * D);
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            real alpha, beta;
            sigmoid_both(entry[2 * D + d], alpha, beta);
            const real gamma = entrance(alpha, beta), held = kept * alpha;
            const real re = held * (cos[d] * before[d] - sin[d] * before[D + d]) + gamma * entry[d];
            const real im = held * (sin[d] * before[d] + cos[d] * before[D + d]) + gamma * entry[D + d];
            const real r_re = entry[3 * D + d], r_im = entry[4 * D + d];
            next[d] = re;
            next[D + d] = im;
            y[d] = r_re * sigmoid(r_re) * re + r_im * sigmoid(r_im) * im;
        }
        h = next;
    }
}

// SiLU and its slope.
template <typename real>
INLINE void silu(real x, real& value, real& slope) {
    const real gate = sigmoid(x);
    value = x * gate;
    slope = gate * (1 + x * (1 - gate));
}

template <bool adds, typename real>
void resonate_backward_row(const Resonate& work, int64_t row, const real* zero, real* __restrict carry,
                           real* __restrict g_table) {
    const int64_t D = work.width, begin = row * work.steps;
    const real *__restrict cos = at<real>(work.turn, 0), *__restrict sin = cos + D;
    real* __restrict g_turn = at<real>(work.g_turn, row * 2 * D);
    std::memset(g_turn, 0, 2 * D * sizeof(real));
    std::memcpy(carry, at<real>(work.g_last, row * 2 * D), 2 * D * sizeof(real));
    for (int64_t t = work.steps - 1; t >= 0; t--) {
        const int64_t i = begin + t, number = adds ? work.index[i] : i;
        const bool resets = work.reset && work.reset[i];
        const real *__restrict entry = at<real>(work.entries, number * 5 * D), *__restrict g_y = at<real>(work.g_y, i * D);
        const real *__restrict h = at<real>(static_cast<const void*>(work.h), i * 2 * D);
        const real* __restrict before = resets ? zero : t ? h - 2 * D : at<real>(work.h0, row * 2 * D);
        real* __restrict g = g_table + number * 5 * D;
        const real kept = resets ? 0 : 1;
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            real alpha, beta, s_re, s_im, slope_re, slope_im;
            sigmoid_both(entry[2 * D + d], alpha, beta);
            silu(entry[3 * D + d], s_re, slope_re);
            silu(entry[4 * D + d], s_im, slope_im);
            const real gamma = entrance(alpha, beta), c = cos[d], s = sin[d], re = before[d], im = before[D + d];
            const real l_re = g_y[d] * s_re + carry[d], l_im = g_y[d] * s_im + carry[D + d];
            const real g_alpha = l_re * (c * re - s * im) + l_im * (s * re + c * im);
            const real g_gamma = l_re * entry[d] + l_im * entry[D + d];
            // (1 − α) α / γ, where γ may be 0 for all that its type can tell
            const real ratio = alpha * std::sqrt(beta / (1 + alpha));
            const real g_keep = alpha * (beta * g_alpha - ratio * g_gamma);
            const real found[5] = {gamma * l_re, gamma * l_im, g_keep, g_y[d] * h[d] * slope_re,
                                   g_y[d] * h[D + d] * slope_im};
            for (int k = 0; k < 5; k++) g[k * D + d] = (adds ? g[k * D + d] : real(0)) + found[k];
            g_turn[d] += alpha * (l_re * re + l_im * im);
            g_turn[D + d] += alpha * (l_im * re - l_re * im);
            carry[d] = kept * alpha * (c * l_re + s * l_im);
            carry[D + d] = kept * alpha * (c * l_im - s * l_re);
        }
    }
    std::memcpy(at<real>(work.g_h0, row * 2 * D), carry, 2 * D * sizeof(real));
}

// The parts of the batch from `first` up to `last`; memory is zeroed, 4 vectors.
template <typename real>
void resonate_parts(const Resonate& work, void* memory, int64_t first, int64_t last) {
    real *zero = static_cast<real*>(memory), *carry = zero + 2 * work.width;
    for (int64_t part = first; part < last; part++)
        for (int64_t row = work.rows * part / work.batch; row < work.rows * (part + 1) / work.batch; row++) {
            real* g = at<real>(work.g_entries, work.index ? part * work.table * 5 * work.width : 0);
            if (!work.g_y) resonate_forward_row<real>(work, row);
            else if (work.index) resonate_backward_row<true>(work, row, zero, carry, g);
            else resonate_backward_row<false>(work, row, zero, carry, g);
        }
}

}  // namespace TARGET
