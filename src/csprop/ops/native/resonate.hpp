// Resonators, and their adjoint: channels that rotate by a fixed angle; the inputs set how they decay and are read.
//
// Glossary                                                    shape, real numbers
//   entry    z (two planes), κ and r (two planes) of a step   (B, T, 5, D)
//   move     a, u and s of a step, two planes each            (E, 6, D), a table that the caller has computed
//   which    the move of each step; absent: from its entry    (B, T)
//   turn     e^{iθ}, one for each channel                     (2, D)
//   h        the state                                        (B, T, 2, D)
//   y        the output                                       (B, T, D)
//
// Forward, with α = σ(κ), γ = √(1 − α²), a = α e^{iθ}, u = γ z and s = SiLU(r) on each plane:
//   h_t = a h_{t-1} + u      y_t = Re(conj(s) h_t)            h_{t-1} = 0 where a reset stands
// Since α < 1, no state grows faster than the sum of its inputs, and no bound is needed.
//
// Adjoint, with ⟨x, y⟩ = Re(conj(x) y) and λ the whole gradient of h_t:
//   λ_t = g_y s + conj(a_{t+1}) λ_{t+1}                       the last term goes to h_0 at the first step
//   g_a = conj(h_{t-1}) λ      g_u = λ      g_s = g_y h
// and from a move to its entry
//   g_z = γ g_u      g_γ = ⟨z, g_u⟩      g_κ = α (1 − α) (⟨e^{iθ}, g_a⟩ − (α/γ) g_γ)      g_turn += α g_a
//   g_r = SiLU'(r) g_s on each plane
// The gradients of a table's moves add up over the steps; each part of the batch has a table of its own.
#pragma once

#include "layout.hpp"
#include "planes.hpp"

namespace TARGET {

// √(1 − α²) from α and β = 1 − α.
template <typename real>
INLINE real entrance(real alpha, real beta) { return std::sqrt(beta * (1 + alpha)); }

template <typename real>
void move_of(const real* __restrict entry, const real* __restrict turn, real* __restrict move, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        real alpha, beta;
        sigmoid_both(entry[2 * D + d], alpha, beta);
        const real gamma = entrance(alpha, beta), r_re = entry[3 * D + d], r_im = entry[4 * D + d];
        move[d] = alpha * turn[d];
        move[D + d] = alpha * turn[D + d];
        move[2 * D + d] = gamma * entry[d];
        move[3 * D + d] = gamma * entry[D + d];
        move[4 * D + d] = r_re * sigmoid(r_re);
        move[5 * D + d] = r_im * sigmoid(r_im);
    }
}

// From the gradient g of a move to the gradient of its entry.
template <typename real>
void move_adjoint(const real* __restrict entry, const real* __restrict turn, const real* __restrict g,
                  real* __restrict g_entry, real* __restrict g_turn, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        real alpha, beta;
        sigmoid_both(entry[2 * D + d], alpha, beta);
        const real gamma = entrance(alpha, beta), r_re = entry[3 * D + d], r_im = entry[4 * D + d];
        const real g_alpha = turn[d] * g[d] + turn[D + d] * g[D + d];
        const real g_gamma = entry[d] * g[2 * D + d] + entry[D + d] * g[3 * D + d];
        const real ratio = alpha * std::sqrt(beta / (1 + alpha));  // α (1 − α) / γ, also where γ rounds to 0
        const real gate_re = sigmoid(r_re), gate_im = sigmoid(r_im);
        g_turn[d] += alpha * g[d];
        g_turn[D + d] += alpha * g[D + d];
        g_entry[d] = gamma * g[2 * D + d];
        g_entry[D + d] = gamma * g[3 * D + d];
        g_entry[2 * D + d] = alpha * (beta * g_alpha - ratio * g_gamma);
        g_entry[3 * D + d] = g[4 * D + d] * gate_re * (1 + r_re * (1 - gate_re));
        g_entry[4 * D + d] = g[5 * D + d] * gate_im * (1 + r_im * (1 - gate_im));
    }
}

template <typename real>
void resonate_forward_row(const Resonate& work, real* memory, int64_t row) {
    const int64_t D = work.width;
    const real *zero = memory, *h = at<real>(work.h0, row * 2 * D);
    for (int64_t t = 0; t < work.steps; t++) {
        const int64_t i = row * work.steps + t;
        const real* move = memory + 4 * D;
        if (work.which) move = at<real>(work.entries, work.which[i] * 6 * D);
        else move_of(at<real>(work.entries, i * 5 * D), at<real>(work.turn, 0), memory + 4 * D, D);
        const real* __restrict before = work.reset && work.reset[i] ? zero : h;
        real* __restrict next = at<real>(work.h, (work.keep ? i : 2 * row + t % 2) * 2 * D);
        real* __restrict y = at<real>(work.y, i * D);
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            const real re = move[d] * before[d] - move[D + d] * before[D + d] + move[2 * D + d];
            const real im = move[d] * before[D + d] + move[D + d] * before[d] + move[3 * D + d];
            next[d] = re;
            next[D + d] = im;
            y[d] = move[4 * D + d] * re + move[5 * D + d] * im;
        }
        h = next;
    }
}

// One step back: sets or adds to the gradient of its move, and computes the gradient of h_{t-1}.
template <bool adds, typename real>
void resonate_back(const real* __restrict move, const real* __restrict before, const real* __restrict h,
                   const real* __restrict g_y, real* __restrict g, real* __restrict carry, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real re = g_y[d] * move[4 * D + d] + carry[d], im = g_y[d] * move[5 * D + d] + carry[D + d];
        g[d] = (adds ? g[d] : real(0)) + before[d] * re + before[D + d] * im;
        g[D + d] = (adds ? g[D + d] : real(0)) + before[d] * im - before[D + d] * re;
        g[2 * D + d] = (adds ? g[2 * D + d] : real(0)) + re;
        g[3 * D + d] = (adds ? g[3 * D + d] : real(0)) + im;
        g[4 * D + d] = (adds ? g[4 * D + d] : real(0)) + g_y[d] * h[d];
        g[5 * D + d] = (adds ? g[5 * D + d] : real(0)) + g_y[d] * h[D + d];
        carry[d] = move[d] * re + move[D + d] * im;
        carry[D + d] = move[d] * im - move[D + d] * re;
    }
}

template <typename real>
void resonate_backward_row(const Resonate& work, real* memory, int64_t row, real* g_table) {
    const int64_t D = work.width;
    real *zero = memory, *carry = memory + 2 * D, *move = memory + 4 * D, *g = memory + 10 * D;
    real* g_turn = at<real>(work.g_turn, row * 2 * D);
    if (g_turn) std::memset(g_turn, 0, 2 * D * sizeof(real));
    std::memcpy(carry, at<real>(work.g_last, row * 2 * D), 2 * D * sizeof(real));
    for (int64_t t = work.steps - 1; t >= 0; t--) {
        const int64_t i = row * work.steps + t;
        const bool resets = work.reset && work.reset[i];
        const real *h = at<real>(static_cast<const void*>(work.h), i * 2 * D), *g_y = at<real>(work.g_y, i * D);
        const real* before = resets ? zero : t ? h - 2 * D : at<real>(work.h0, row * 2 * D);
        if (work.which) {
            const int64_t place = work.which[i] * 6 * D;
            resonate_back<true>(at<real>(work.entries, place), before, h, g_y, g_table + place, carry, D);
        } else {
            const real *entry = at<real>(work.entries, i * 5 * D), *turn = at<real>(work.turn, 0);
            move_of(entry, turn, move, D);
            resonate_back<false>(move, before, h, g_y, g, carry, D);
            move_adjoint(entry, turn, g, at<real>(work.g_entries, i * 5 * D), g_turn, D);
        }
        if (resets) std::memset(carry, 0, 2 * D * sizeof(real));
    }
    std::memcpy(at<real>(work.g_h0, row * 2 * D), carry, 2 * D * sizeof(real));
}

// The parts of the batch from `first` up to `last`.
template <typename real>
void resonate_parts(const Resonate& work, real* memory, int64_t first, int64_t last) {
    for (int64_t part = first; part < last; part++)
        for (int64_t row = work.rows * part / work.batch; row < work.rows * (part + 1) / work.batch; row++) {
            if (!work.g_y) resonate_forward_row(work, memory, row);
            else resonate_backward_row(work, memory, row, at<real>(work.g_entries, part * work.table * 6 * work.width));
        }
}

}  // namespace TARGET
