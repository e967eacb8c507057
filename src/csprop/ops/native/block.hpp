// The block of the paper in one pass over time, and its adjoint in one pass back.
//
// Glossary                                                    shape, real numbers
//   z        the layer's input                                (B, T, 2, D)
//   theta    W_θ z before its tanh, or the free angle          (B, T, 1 or D)
//   delta    δ, from which α (keep) and γ (enter) come         (B, T, 1 or D)
//   a, b     transition and entrance, complex numbers:
//              rotate the input   a = α           b = γ e^{iθ}
//              rotate the state   a = α e^{iθ}    b = γ
//   w        what enters: z, or z / |z| where the gate resets
//   c        what the layer below couples in, or nothing      (B, T, 2, D)
//   h        the state                                        (B, T, 2, D)
//   s        σ(g), the strength of the skip                   (G, D)
//   start    where a state begins again after a reset         (G, 2, D)
// B rows are G groups of B / G rows: the groups are models trained side by side.
//
// Forward, for each row, step and channel:
//   h_t = bound(a_t h_{t-1} + b_t w_t + c_t, 2^60)            h_{t-1} = start where a reset stands
//   p_t = SiLU(h_t) + s z_t                                   SiLU on each plane, or the identity
//   out = p_t / (sqrt(|p_t|² + 1e-30) + ε)                    or bound(p_t, 2^20) without the norm
// where bound(x, L) = x / max(1, |x| / L) keeps the phase.
//
// Adjoint. Gradients are complex numbers too: g = ∂L/∂Re + i ∂L/∂Im, so that a product y = k x passes
// conj(k) g_y to x and conj(x) g_y to k. With m = sqrt(|p|² + 1e-30), n = m + ε and ⟨x, y⟩ = Re(conj(x) y):
//   norm       g_p = g_out / n − p ⟨p, g_out⟩ / (m n²)
//   bound      g_x = (g_y − ŷ ⟨ŷ, g_y⟩) / (|x| / L) where |x| > L, ŷ = y / L: the tangential part
//   skip       g_s += ⟨z, g_p⟩                g_z += s g_p
//   SiLU       λ_t = SiLU'(h_t) g_p + conj(a_{t+1}) μ_{t+1}
//   state      μ_t = bound(λ_t through the bound of h_t, 2^30)
//   recur      g_a = conj(h_{t-1}) μ_t        g_b = conj(w_t) μ_t        g_c = μ_t
//   entrance   g_w = conj(b_t) μ_t            through w = z / |z| as through the norm
//   gates      g_α = ⟨∂a/∂α, g_a⟩ and likewise for γ, θ in a and b; a gate shared by the channels sums
// and at the end g_{h_0} = conj(a_1) μ_1. States are read back, everything else is computed again.
#pragma once

#include "gates.hpp"

namespace TARGET {

constexpr double OUTPUT_LIMIT = 0x1p20, EPSILON = 1e-8, TINY = 1e-30;

// x / (sqrt(|x|² + TINY) + ε) on D complex numbers.
template <typename real>
void unit(const real* __restrict x, real* __restrict y, int64_t D, real epsilon = real(EPSILON)) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real re = x[d], im = x[D + d];
        const real inverse = 1 / (std::sqrt(re * re + im * im + real(TINY)) + epsilon);
        y[d] = re * inverse;
        y[D + d] = im * inverse;
    }
}

// g_x += the gradient through `unit`.
template <typename real>
void unit_adjoint(const real* __restrict x, const real* __restrict g, real* __restrict g_x, int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real re = x[d], im = x[D + d];
        const real m = std::sqrt(re * re + im * im + real(TINY)), n = 1 / (m + real(EPSILON));
        const real radial = (re * g[d] + im * g[D + d]) * n * n / m;
        g_x[d] += g[d] * n - re * radial;
        g_x[D + d] += g[D + d] * n - im * radial;
    }
}

// One row of the batch at one step: the pointers that both directions need.
template <typename real>
struct Place {
    const real *z, *coupled, *skip, *start;
    int64_t offset;  // of (row, t) in an activation (B, T, 2, D)
    bool resets;

    Place(const Block& block, int64_t row, int64_t t) {
        const int64_t D = block.width, group = row / (block.batch / block.groups), step = row * block.steps + t;
        offset = step * 2 * D;
        z = at<real>(block.z, offset);
        coupled = at<real>(block.coupled, offset);
        skip = at<real>(block.skip, group * D);
        start = at<real>(block.start, group * 2 * D);
        resets = block.reset && block.reset[step];
    }
};

// a h + b w + c, before any bound.
template <typename real>
void recur(const real* __restrict a, const real* __restrict h, const real* __restrict b,
                  const real* __restrict w, const real* __restrict c, real* __restrict next, int64_t D) {
    const int64_t im = TILE * D;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real h_re = h[d], h_im = h[D + d];
        next[d] = a[d] * h_re - a[im + d] * h_im + b[d] * w[d] - b[im + d] * w[D + d];
        next[D + d] = a[d] * h_im + a[im + d] * h_re + b[d] * w[D + d] + b[im + d] * w[d];
    }
    if (!c) return;
#pragma omp simd
    for (int64_t i = 0; i < 2 * D; i++) next[i] += c[i];
}

// p = SiLU(h) + s z.
template <bool silu, typename real>
void activate(const real* __restrict h, const real* __restrict z, const real* __restrict skip,
                     real* __restrict p, int64_t D) {
    if (skip) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            p[d] = (silu ? h[d] * sigmoid(h[d]) : h[d]) + skip[d] * z[d];
            p[D + d] = (silu ? h[D + d] * sigmoid(h[D + d]) : h[D + d]) + skip[d] * z[D + d];
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < 2 * D; i++) p[i] = silu ? h[i] * sigmoid(h[i]) : h[i];
    }
}

template <bool silu, typename real>
void forward_row(const Block& block, Scratch<real>& s, int64_t row) {
    const int64_t D = block.width, T = block.steps;
    const Gates<real> gates{block, s};
    const real* h = at<real>(block.h0, row * 2 * D);
    for (int64_t first = 0; first < T; first += TILE) {
        const int64_t steps = T - first < TILE ? T - first : TILE;
        gates.forward(row * T + first, steps);
        for (int64_t k = 0; k < steps; k++) {
            const Place<real> here(block, row, first + k);
            if (block.decay == RESET) unit(here.z, s.w, D);
            real* next = block.keep ? at<real>(block.h, here.offset) : h == s.h ? s.mu : s.h;
            real* out = at<real>(block.out, here.offset);
            recur(s.a + k * D, here.resets ? here.start : h, s.b + k * D, block.decay == RESET ? s.w : here.z,
                  here.coupled, next, D);
            bound(next, next + D, D, real(LIMIT));
            h = next;
            activate<silu>(h, here.z, here.skip, block.norm ? s.p : out, D);
            if (block.norm) unit(s.p, out, D);
            else bound(out, out + D, D, real(OUTPUT_LIMIT));
        }
    }
    if (!block.keep) std::memcpy(at<real>(block.h, row * 2 * D), h, 2 * D * sizeof(real));
}

// s.g = the gradient of p, and what it passes through the skip.
template <bool silu, typename real>
void finish_adjoint(const Block& block, Scratch<real>& s, const Place<real>& here, const real* h) {
    const int64_t D = block.width;
    const real* g_out = at<real>(block.g_out, here.offset);
    real *__restrict g = s.g, *__restrict g_z = at<real>(block.g_z, here.offset);
    activate<silu>(h, here.z, here.skip, s.p, D);
    if (block.norm) {
        std::memset(g, 0, 2 * D * sizeof(real));
        unit_adjoint(s.p, g_out, g, D);
    } else {
        std::memcpy(g, g_out, 2 * D * sizeof(real));
        bound_adjoint(s.p, s.p + D, g, g + D, D, real(OUTPUT_LIMIT));
    }
    if (!here.skip) {
        std::memset(g_z, 0, 2 * D * sizeof(real));
        return;
    }
    const real *__restrict skip = here.skip, *__restrict z = here.z;
    real* __restrict g_skip = s.g_skip;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        g_skip[d] += z[d] * g[d] + z[D + d] * g[D + d];
        g_z[d] = skip[d] * g[d];
        g_z[D + d] = skip[d] * g[D + d];
    }
}

// s.mu = the gradient of a h + b w + c.
template <bool silu, typename real>
void state_adjoint(const Block& block, Scratch<real>& s, const Place<real>& here, const real* h,
                          const real* before, const real* w, int64_t k) {
    const int64_t D = block.width;
    const real *__restrict g = s.g, *__restrict carry = s.carry, *__restrict g_h = at<real>(block.g_h, here.offset);
    real* __restrict mu = s.mu;
    int large = 0;
#pragma omp simd reduction(| : large)
    for (int64_t i = 0; i < 2 * D; i++) {
        const real gate = silu ? sigmoid(h[i]) : real(1);
        const real slope = silu ? gate * (1 + h[i] * (1 - gate)) : real(1);
        mu[i] = slope * g[i] + carry[i];
        large |= std::fabs(h[i]) > real(LIMIT / 2);
    }
    if (g_h) {
#pragma omp simd
        for (int64_t i = 0; i < 2 * D; i++) mu[i] += g_h[i];
    }
    if (large) {
        recur(s.a + k * D, before, s.b + k * D, w, here.coupled, s.p, D);
        bound_adjoint(s.p, s.p + D, mu, mu + D, D, real(LIMIT));
    }
    bound(mu, mu + D, D, real(GRADIENT_LIMIT));
}

// g_a, g_b, s.g = g_w, and the carry to the step before.
template <typename real>
void recur_adjoint(Scratch<real>& s, const real* __restrict before, const real* __restrict w, int64_t k,
                          int64_t D) {
    const int64_t im = TILE * D;
    const real *__restrict a = s.a + k * D, *__restrict b = s.b + k * D, *__restrict mu = s.mu;
    real *__restrict g_a = s.g_a + k * D, *__restrict g_b = s.g_b + k * D;
    real *__restrict g_w = s.g, *__restrict carry = s.carry;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real re = mu[d], i = mu[D + d];
        g_a[d] = before[d] * re + before[D + d] * i;
        g_a[im + d] = before[d] * i - before[D + d] * re;
        g_b[d] = w[d] * re + w[D + d] * i;
        g_b[im + d] = w[d] * i - w[D + d] * re;
        g_w[d] = b[d] * re + b[im + d] * i;
        g_w[D + d] = b[d] * i - b[im + d] * re;
        carry[d] = a[d] * re + a[im + d] * i;
        carry[D + d] = a[d] * i - a[im + d] * re;
    }
}

template <bool silu, typename real>
void backward_row(const Block& block, Scratch<real>& s, int64_t row) {
    const int64_t D = block.width, T = block.steps, size = 2 * D * sizeof(real);
    const Gates<real> gates{block, s};
    real* g_start = at<real>(block.g_start, row * 2 * D);
    std::memset(s.carry, 0, size);
    std::memset(s.g_skip, 0, size);
    if (g_start) std::memset(g_start, 0, size);
    for (int64_t first = (T - 1) / TILE * TILE; first >= 0; first -= TILE) {
        const int64_t steps = T - first < TILE ? T - first : TILE;
        gates.forward(row * T + first, steps);
        for (int64_t k = steps - 1; k >= 0; k--) {
            const Place<real> here(block, row, first + k);
            const real* h = at<real>(block.h, here.offset);
            const real* before = here.resets ? here.start
                                 : first + k ? h - 2 * D
                                             : at<real>(block.h0, row * 2 * D);
            const real* w = block.decay == RESET ? s.w : here.z;
            real* __restrict g_z = at<real>(block.g_z, here.offset);
            if (block.decay == RESET) unit(here.z, s.w, D);
            finish_adjoint<silu>(block, s, here, h);
            state_adjoint<silu>(block, s, here, h, before, w, k);
            if (block.g_coupled) std::memcpy(at<real>(block.g_coupled, here.offset), s.mu, size);
            recur_adjoint(s, before, w, k, D);
            if (block.decay == RESET) unit_adjoint(here.z, s.g, g_z, D);
            else
#pragma omp simd
                for (int64_t i = 0; i < 2 * D; i++) g_z[i] += s.g[i];
            if (!here.resets) continue;
            for (int64_t i = 0; g_start && i < 2 * D; i++) g_start[i] += s.carry[i];
            std::memset(s.carry, 0, size);
        }
        gates.backward(row * T + first, steps);
    }
    std::memcpy(at<real>(block.g_h0, row * 2 * D), s.carry, size);
    if (block.g_skip) std::memcpy(at<real>(block.g_skip, row * D), s.g_skip, size / 2);
}

}  // namespace TARGET
