// The block of the paper in one pass over time, and its adjoint in one pass back.
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

// g_x of y = x / (|x| + ε), for one complex number.
template <typename real>
INLINE void unit_adjoint(real re, real im, real g_re, real g_im, real& out_re, real& out_im) {
    const real m = size(re, im), inverse = 1 / (m * (m + real(EPSILON))), over_n = m * inverse;
    const real radial = (re * g_re + im * g_im) * over_n * inverse;
    out_re = g_re * over_n - re * radial;
    out_im = g_im * over_n - im * radial;
}

inline int64_t group_of(const Block& block, int64_t row) { return row / (block.batch / block.groups); }

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

template <typename real>
Projection<real> angle_projection(const Block& block, int64_t row) {
    const int64_t n = block.angle_inputs, group = group_of(block, row);
    return {block.angles == 1 ? at<real>(block.angle_weight, group * n) : nullptr, at<real>(block.angle_bias, group), at<real>(block.theta, 0),
            at<real>(block.g_theta, 0), at<real>(block.g_angle_weight, row * n), at<real>(block.g_angle_bias, row), n,
            block.width};
}

template <typename real>
Projection<real> gate_projection(const Block& block, int64_t row) {
    const int64_t n = block.gate_inputs, group = group_of(block, row);
    return {block.gates == 1 ? at<real>(block.gate_weight, group * n) : nullptr, at<real>(block.gate_bias, group), at<real>(block.delta, 0),
            at<real>(block.g_delta, 0), at<real>(block.g_gate_weight, row * n), at<real>(block.g_gate_bias, row), n,
            block.width};
}

// The steps from `first` on, a tile at most, of one layer and row; z and out are where they start.
template <bool shared, bool unit, bool silu, bool norm, typename real>
void forward_tile(const Block& block, const Scratch<real>& s, int64_t row, int64_t first, const real* z, real* out) {
    const int64_t D = block.width, T = block.steps, steps = T - first < TILE ? T - first : TILE;
    const int64_t step = row * T + first;
    for (const Projection<real>& each : {angle_projection<real>(block, row), gate_projection<real>(block, row)})
        each.forward(z, step, steps);
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

// From g_out to s.mu, the gradient of the state, and g_z through the skip; whether a bound may matter.
template <bool silu, bool norm, typename real>
bool finish_adjoint(const Scratch<real>& s, const Place<real>& here, const real* __restrict h,
                    const real* __restrict g_out, const real* __restrict g_h, real* __restrict g_skip,
                    real* __restrict g_z, int64_t D) {
    const real *__restrict z = here.z, *__restrict skip = here.skip, *__restrict carry = s.carry;
    real* __restrict mu = s.mu;
    const real* __restrict gate = s.gate;
    real* __restrict g_p = s.p;
    activate<silu>(h, s.gate, D);
    if (norm) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++)
            unit_adjoint(h[d] * gate[d] + skip[d] * z[d], h[D + d] * gate[D + d] + skip[d] * z[D + d], g_out[d],
                         g_out[D + d], g_p[d], g_p[D + d]);
    }
    const real* __restrict g = norm ? g_p : g_out;
    int above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t d = 0; d < D; d++) {
        const real h_re = h[d], h_im = h[D + d], g_re = g[d], g_im = g[D + d];
        const real gate_re = gate[d], gate_im = gate[D + d];
        g_skip[d] += z[d] * g_re + z[D + d] * g_im;
        g_z[d] = skip[d] * g_re;
        g_z[D + d] = skip[d] * g_im;
        const real slope_re = silu ? gate_re * (1 + h_re * (1 - gate_re)) : real(1);
        const real slope_im = silu ? gate_im * (1 + h_im * (1 - gate_im)) : real(1);
        const real re = slope_re * g_re + carry[d] + g_h[d], im = slope_im * g_im + carry[D + d] + g_h[D + d];
        mu[d] = re;
        mu[D + d] = im;
        above |= re * re + im * im > real(GRADIENT_LIMIT * GRADIENT_LIMIT);
        above |= h_re * h_re + h_im * h_im > real(LIMIT * LIMIT / 4);
    }
    return above;
}

// From s.mu to g_a, g_b, g_z through what enters, and s.carry, the gradient of the state before.
template <bool shared, bool unit, typename real>
void recur_adjoint(const Scratch<real>& s, int64_t k, const Place<real>& here, const real* __restrict before,
                   real* __restrict g_z, int64_t D) {
    const int64_t extent = shared ? 1 : D, im = TILE * extent;
    const real *__restrict a = s.a + k * extent, *__restrict b = s.b + k * extent;
    const real *__restrict mu = s.mu, *__restrict z = here.z;
    real *__restrict g_a = s.g_a + k * extent, *__restrict g_b = s.g_b + k * extent, *__restrict carry = s.carry;
    real sum_a_re = 0, sum_a_im = 0, sum_b_re = 0, sum_b_im = 0;
#pragma omp simd reduction(+ : sum_a_re, sum_a_im, sum_b_re, sum_b_im)
    for (int64_t d = 0; d < D; d++) {
        const int64_t i = shared ? 0 : d;
        const real re = mu[d], imag = mu[D + d], scale = unit ? 1 / (size(z[d], z[D + d]) + real(EPSILON)) : real(1);
        const real w_re = z[d] * scale, w_im = z[D + d] * scale, h_re = before[d], h_im = before[D + d];
        const real a_re = h_re * re + h_im * imag, a_im = h_re * imag - h_im * re;
        const real b_re = w_re * re + w_im * imag, b_im = w_re * imag - w_im * re;
        if (shared) {
            sum_a_re += a_re, sum_a_im += a_im, sum_b_re += b_re, sum_b_im += b_im;
        } else {
            g_a[d] = a_re, g_a[im + d] = a_im, g_b[d] = b_re, g_b[im + d] = b_im;
        }
        carry[d] = a[i] * re + a[im + i] * imag;
        carry[D + d] = a[i] * imag - a[im + i] * re;
        real g_re = b[i] * re + b[im + i] * imag, g_im = b[i] * imag - b[im + i] * re;
        if (unit) unit_adjoint(z[d], z[D + d], g_re, g_im, g_re, g_im);
        g_z[d] += g_re;
        g_z[D + d] += g_im;
    }
    if (shared) g_a[0] = sum_a_re, g_a[im] = sum_a_im, g_b[0] = sum_b_re, g_b[im] = sum_b_im;
}

constexpr int64_t AHEAD = 4;  // steps that the adjoint fetches before it comes to them

// What comes after a tile of the adjoint.
template <typename real>
struct Soon {
    const real *z = nullptr, *h = nullptr;
    int64_t numbers = 0;

    Soon() = default;
    Soon(const Block& block, int64_t row, int64_t first) {
        const int64_t D = block.width, T = block.steps, offset = (row * T + first) * 2 * D;
        z = at<real>(block.z, offset), h = at<real>(block.h, offset);
        numbers = (T - first < TILE ? T - first : TILE) * 2 * D;
    }

    // Its last steps come first; `late` counts them from the end.
    void step(int64_t late, int64_t n) const {
        if (late * n > numbers) return;
        fetch(z + numbers - late * n, n);
        fetch(h + numbers - late * n, n);
    }
};

template <bool shared, bool unit, bool silu, bool norm, typename real>
void backward_tile(const Block& block, const Scratch<real>& s, int64_t row, int64_t first, const real* g_outs,
                   real* g_zs, const Soon<real>& soon) {
    const int64_t D = block.width, T = block.steps, steps = T - first < TILE ? T - first : TILE;
    const int64_t step = row * T + first, bytes = 2 * D * sizeof(real);
    const Gates<real> gates{block, s};
    const real* z = at<real>(block.z, step * 2 * D);
    real *g_start = at<real>(block.g_start, row * 2 * D), *g_skip = block.g_skip ? at<real>(block.g_skip, row * D) : s.h;
    gates.forward(step, steps);
    for (int64_t k = steps - 1; k >= 0; k--) {
        const Place<real> here(block, s, row, first + k, z + k * 2 * D);
        if (k >= AHEAD) {
            fetch(z + (k - AHEAD) * 2 * D, 2 * D);
            fetch(at<real>(static_cast<const void*>(block.h), (step + k - AHEAD) * 2 * D), 2 * D);
        } else {
            soon.step(AHEAD - k, 2 * D);
        }
        const real *h = at<real>(block.h, here.offset), *g_out = g_outs + k * 2 * D;
        const real* g_h = block.g_h ? at<real>(block.g_h, here.offset) : s.zero;
        const real* before = here.resets ? here.start : first + k ? h - 2 * D : at<real>(block.h0, row * 2 * D);
        real* g_z = g_zs + k * 2 * D;
        if (!norm) {  // through the bound of the output
            finish<silu, false>(h, here.z, here.skip, s.gate, s.p, D);
            std::memcpy(s.g, g_out, bytes);
            bound_adjoint(s.p, s.g, PAIR, D, real(OUTPUT_LIMIT));
            g_out = s.g;
        }
        if (finish_adjoint<silu, norm>(s, here, h, g_out, g_h, g_skip, g_z, D)) {
            recur<shared, unit>(s, k, here, before, s.p, D);
            bound_adjoint(s.p, s.mu, PAIR, D, real(LIMIT));
            bound(s.mu, PAIR, D, real(GRADIENT_LIMIT));
        }
        if (block.g_coupled) std::memcpy(at<real>(block.g_coupled, here.offset), s.mu, bytes);
        recur_adjoint<shared, unit>(s, k, here, before, g_z, D);
        if (!here.resets) continue;
        for (int64_t i = 0; g_start && i < 2 * D; i++) g_start[i] += s.carry[i];
        std::memset(s.carry, 0, bytes);
    }
    gates.backward(step, steps);
    for (const Projection<real>& each : {angle_projection<real>(block, row), gate_projection<real>(block, row)})
        each.backward(z, g_zs, step, steps);
}

// Rows of a batch through all layers, tile by tile: what one layer writes the next one finds in the cache.
template <bool shared, bool unit, bool silu, bool norm, typename real>
void stack_rows(const Stack& stack, void* memory, int64_t first, int64_t last) {
    const int64_t D = stack.blocks->width, T = stack.blocks->steps, depth = stack.depth, end = (T - 1) / TILE * TILE;
    for (int64_t row = first; row < last; row++) {
        for (int64_t l = 0; l < depth; l++) {
            const Scratch<real> s(memory, D, l);
            strengthen(stack.blocks[l], s, row);
            std::memset(s.carry, 0, 2 * D * sizeof(real));
        }
        if (!stack.blocks[depth - 1].g_out) {
            for (int64_t t = 0; t < T; t += TILE) {
                const int64_t offset = (row * T + t) * 2 * D;
                const real* z = at<real>(stack.blocks->z, offset);
                for (int64_t l = 0; l < depth; l++) {
                    const Scratch<real> s(memory, D, l);
                    real* out = stack.blocks[l].out ? at<real>(stack.blocks[l].out, offset) : s.between;
                    forward_tile<shared, unit, silu, norm>(stack.blocks[l], s, row, t, z, out);
                    z = out;
                }
            }
            continue;
        }
        for (int64_t t = end; t >= 0; t -= TILE) {
            const int64_t offset = (row * T + t) * 2 * D;
            const real* g_out = at<real>(stack.blocks[depth - 1].g_out, offset);
            for (int64_t l = depth - 1; l >= 0; l--) {
                const Scratch<real> s(memory, D, l);
                real* g_z = l ? s.between : at<real>(stack.blocks->g_z, offset);
                const Soon<real> soon = l                ? Soon<real>(stack.blocks[l - 1], row, t)
                                        : t              ? Soon<real>(stack.blocks[depth - 1], row, t - TILE)
                                        : row + 1 < last ? Soon<real>(stack.blocks[depth - 1], row + 1, end)
                                                         : Soon<real>();
                backward_tile<shared, unit, silu, norm>(stack.blocks[l], s, row, t, g_out, g_z, soon);
                g_out = g_z;
            }
        }
        for (int64_t l = 0; l < depth; l++) {
            const Block& block = stack.blocks[l];
            const Scratch<real> s(memory, D, l);
            std::memcpy(at<real>(block.g_h0, row * 2 * D), s.carry, 2 * D * sizeof(real));
            real* g_skip = at<real>(block.g_skip, row * D);
            for (int64_t d = 0; g_skip && d < D; d++) g_skip[d] *= s.skip[d] * (1 - s.skip[d]);
        }
    }
}

// Chooses, one after the other, the options that the inner loops are compiled for.
template <typename real, bool... chosen>
void stack_either(const Stack& stack, void* memory, int64_t first, int64_t last) {
    if constexpr (sizeof...(chosen) == 4) {
        stack_rows<chosen..., real>(stack, memory, first, last);
    } else {
        const Block& block = *stack.blocks;
        const bool options[] = {gates_shared(block), block.decay >= RESET, block.silu != 0, block.norm != 0};
        if (options[sizeof...(chosen)]) stack_either<real, chosen..., true>(stack, memory, first, last);
        else stack_either<real, chosen..., false>(stack, memory, first, last);
    }
}

}  // namespace TARGET
