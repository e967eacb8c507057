// The block of the paper in one pass over time; adjoint.hpp has its adjoint, in one pass back.
//
// Glossary                                                    shape, real numbers
//   z        the layer's input                                (B, T, 2, D)
//   theta    W_θ z before its tanh, or the free angle          (B, T, 1 or D)
//   delta    δ = W z + b, from which α (keep) and γ (enter) come   (B, T, 1 or D)
//   a, b     transition and entrance, complex numbers:
//              rotate the input   a = α           b = γ e^{iθ}
//              rotate the state   a = α e^{iθ}    b = γ
//   w        what enters: z, or z / (|z| + ε) where the gate resets
//   c        what the layer below couples in, or nothing      (B, T, 2, D)
//   h        the state                                        (B, T, 2, D)
//   skip, s  g and σ(g), the strength of the skip             (G, D)
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
//   skip       g_g += s (1 − s) ⟨z, g_p⟩      g_z += s g_p
//   SiLU       λ_t = g_{h_t} + SiLU'(h_t) g_p + conj(a_{t+1}) μ_{t+1}     on each plane; g_{h_t} from outside
//   state      μ_t = bound(λ_t through the bound of h_t, 2^30)
//   recur      g_a = conj(h_{t-1}) μ_t        g_b = conj(w_t) μ_t        g_c = μ_t
//   entrance   g_w = conj(b_t) μ_t            through w = z / |z| as through the norm
//   gates      g_α = ⟨∂a/∂α, g_a⟩ and likewise for γ, θ in a and b; a gate shared by the channels sums
//   projection g_z += Wᵀ g_δ                  g_W += g_δ zᵀ               and likewise for θ
// and at the end g_{h_0} = conj(a_1) μ_1. Where a reset stands at t + 1, conj(a_{t+1}) μ_{t+1} goes to the
// gradient of start instead. States, the layers' inputs, theta and delta are kept from the forward pass;
// everything else is computed again.
#pragma once

#include "gates.hpp"

namespace TARGET {

constexpr double OUTPUT_LIMIT = 0x1p20, EPSILON = 1e-8, TINY = 1e-30;

// sqrt(|x|² + TINY), the modulus with a finite slope at 0.
template <typename real>
INLINE real size(real re, real im) { return std::sqrt(re * re + im * im + real(TINY)); }

// One row of the batch at one step: what both directions read there.
template <typename real>
struct Place {
    int64_t offset;  // of (row, t) in an activation (B, T, 2, D)
    const real *z, *coupled, *skip, *start;
    bool resets;

    Place(const Block& block, const Scratch<real>& s, int64_t row, int64_t t, const real* z) : z(z) {
        const int64_t D = block.width, step = row * block.steps + t;
        offset = step * 2 * D;
        coupled = block.coupled ? at<real>(block.coupled, offset) : s.zero;
        skip = s.skip;
        start = at<real>(block.start, group_of(block, row) * 2 * D);
        resets = block.reset && block.reset[step];
    }
};

// next = a h + b w + c before its bound; whether any needs one. Step k of a tile; `shared`: one a and b for
// all channels; `unit`: what enters is z / |z|.
template <bool shared, bool unit, typename real>
bool recur(const Scratch<real>& s, int64_t k, const Place<real>& here, const real* __restrict h,
           real* __restrict next, int64_t D) {
    const int64_t extent = shared ? 1 : D, im = TILE * extent;
    const real *__restrict a = s.a + k * extent, *__restrict b = s.b + k * extent;
    const real *__restrict z = here.z, *__restrict c = here.coupled;
    int above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t d = 0; d < D; d++) {
        const int64_t i = shared ? 0 : d;
        const real scale = unit ? 1 / (size(z[d], z[D + d]) + real(EPSILON)) : real(1);
        const real w_re = z[d] * scale, w_im = z[D + d] * scale, h_re = h[d], h_im = h[D + d];
        const real re = a[i] * h_re - a[im + i] * h_im + b[i] * w_re - b[im + i] * w_im + c[d];
        const real imag = a[i] * h_im + a[im + i] * h_re + b[i] * w_im + b[im + i] * w_re + c[D + d];
        next[d] = re;
        next[D + d] = imag;
        above |= re * re + imag * imag > real(LIMIT * LIMIT);
    }
    return above;
}

// σ(h) on each plane; 1 without SiLU. Short loops keep a processor busier than one that does everything.
template <bool silu, typename real>
void activate(const real* __restrict h, real* __restrict gate, int64_t D) {
#pragma omp simd
    for (int64_t i = 0; i < 2 * D; i++) gate[i] = silu ? sigmoid(h[i]) : real(1);
}

// out = p / |p| or p, with p = SiLU(h) + s z.
template <bool silu, bool norm, typename real>
void finish(const real* __restrict h, const real* __restrict z, const real* __restrict skip,
            real* __restrict gate, real* __restrict out, int64_t D) {
    activate<silu>(h, gate, D);
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real re = h[d] * gate[d] + skip[d] * z[d], im = h[D + d] * gate[D + d] + skip[d] * z[D + d];
        const real scale = norm ? 1 / (size(re, im) + real(EPSILON)) : real(1);
        out[d] = re * scale;
        out[D + d] = im * scale;
    }
}

// s = σ(g), or 0 without a skip.
template <typename real>
void strengthen(const Block& block, const Scratch<real>& s, int64_t row) {
    const int64_t D = block.width;
    const real* __restrict g = block.skip ? at<real>(block.skip, group_of(block, row) * D) : s.zero;
    const bool absent = !block.skip;
    real* __restrict skip = s.skip;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) skip[d] = absent ? real(0) : sigmoid(g[d]);
}

// The steps from `first` on, a tile at most, of one layer and row; z and out are where they start.
template <bool shared, bool unit, bool silu, bool norm, typename real>
void forward_tile(const Block& block, const Scratch<real>& s, int64_t row, int64_t first, const real* z, real* out) {
    const int64_t D = block.width, T = block.steps, steps = T - first < TILE ? T - first : TILE;
    const int64_t step = row * T + first;
    for (const ProjectionFields& each : PROJECTIONS) Projection<real>(block, each, row).forward(z, step, steps);
    Gates<real>{block, s}.forward(step, steps);
    real* last = at<real>(block.h, row * 2 * D);  // the one state that is kept, unless all are
    const real* h = !first          ? at<real>(block.h0, row * 2 * D)
                    : block.keep ? at<real>(block.h, (step - 1) * 2 * D)
                                 : last;
    for (int64_t k = 0; k < steps; k++, out += 2 * D) {
        const Place<real> here(block, s, row, first + k, z + k * 2 * D);
        real* next = block.keep ? at<real>(block.h, here.offset) : h == s.h ? s.mu : s.h;
        if (recur<shared, unit>(s, k, here, here.resets ? here.start : h, next, D))
            bound(next, PAIR, D, real(LIMIT));
        finish<silu, norm>(next, here.z, here.skip, s.gate, out, D);
        if (!norm) bound(out, PAIR, D, real(OUTPUT_LIMIT));
        h = next;
    }
    if (!block.keep) std::memcpy(last, h, 2 * D * sizeof(real));
}

}  // namespace TARGET
