// The adjoint of a block, a tile of steps at a time; block.hpp has the names and the derivation.
#pragma once

#include "block.hpp"
#include "memory.hpp"

namespace TARGET {

// g_x of y = x / (|x| + ε), for one complex number.
template <typename real>
INLINE void unit_adjoint(real re, real im, real g_re, real g_im, real& out_re, real& out_im) {
    const real m = size(re, im), inverse = 1 / (m * (m + real(EPSILON))), over_n = m * inverse;
    const real radial = (re * g_re + im * g_im) * over_n * inverse;
    out_re = g_re * over_n - re * radial;
    out_im = g_im * over_n - im * radial;
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

// The tile that comes after one of the adjoint. It is fetched upwards, a step of it at each step of the other, which goes
// down: processors foresee a walk upwards, and so fetch its first step's neighbours themselves.
template <typename real>
struct Soon {
    const real *z = nullptr, *h = nullptr;
    int64_t steps = 0;

    Soon() = default;
    Soon(const Block& block, int64_t row, int64_t first) {
        const int64_t D = block.width, T = block.steps, offset = (row * T + first) * 2 * D;
        z = at<real>(block.z, offset), h = at<real>(block.h, offset);
        steps = T - first < TILE ? T - first : TILE;
    }

    INLINE void step(int64_t k, int64_t n) const {
        if (k >= steps) return;
        fetch(z + k * n, n);
        fetch(h + k * n, n);
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
        soon.step(steps - 1 - k, 2 * D);
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
    for (const ProjectionFields& each : PROJECTIONS) Projection<real>(block, each, row).backward(z, g_zs, step, steps);
}

}  // namespace TARGET
