// From the inputs of a layer to a and u of its recurrence, h_t = a_t h_{t-1} + u_t with u = b w, and the adjoint.
// level.hpp has the names, rotors.hpp the orders above 2. The entering vector w can also be
//   a point of the channel, point / |point|       where there is one
//   round(Re z), with the gradient of Re z        in a counter, whose a and b are 1
// The gates of a tile of entries are computed again in the adjoint.
#pragma once

#include "gates.hpp"
#include "products.hpp"
#include "rotors.hpp"

namespace TARGET {

// w of one entry.
template <typename real>
const real* entering(const Level<real>& level, const real* z, real* w) {
    const int64_t D = level.size.D;
    if (level.point) return level.point;
    if (level.replaces()) return to_unit(z, w, level.size.m, D, real(EPSILON)), level.snap(w), w;
    if (level.layer.decay != Decay::count) return z;
    for (int64_t d = 0; d < D; d++) w[d] = std::nearbyint(z[d]), w[D + d] = 0;
    return w;
}

// Adds the gradient through w to g_z, or to the gradient of the point.
template <typename real>
void entering_adjoint(const Level<real>& level, const real* z, real* g_w, real* g_z) {
    const int64_t n = level.layer.decay == Decay::count ? level.size.D : level.size.state;
    real* __restrict to = level.point ? level.g_point : g_z;
    if (!level.point && level.replaces()) to_unit_adjoint(z, g_w, level.size.m, level.size.D, real(EPSILON));
#pragma omp simd
    for (int64_t d = 0; d < n; d++) to[d] += g_w[d];
}

// u = b w: b is complex where it turns the input.
template <bool shared, typename real>
void multiply(const Level<real>& level, const real* __restrict b, const real* __restrict w, real* __restrict u) {
    const int64_t D = level.size.D;
    const real* __restrict b_im = b + TILE * level.size.extent;
    if (level.layer.rotate == Rotate::input) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            const int64_t i = shared ? 0 : d;
            u[d] = b[i] * w[d] - b_im[i] * w[D + d];
            u[D + d] = b[i] * w[D + d] + b_im[i] * w[d];
        }
    } else {
        for (int64_t plane = 0; plane < level.size.m; plane++, u += D, w += D) {
#pragma omp simd
            for (int64_t d = 0; d < D; d++) u[d] = b[shared ? 0 : d] * w[d];
        }
    }
}

// From g_u to g_b and g_w.
template <bool shared, typename real>
void multiply_adjoint(const Level<real>& level, const real* __restrict b, const real* __restrict w,
                      const real* __restrict g_u, real* __restrict g_b, real* __restrict g_w) {
    const int64_t D = level.size.D, imaginary = TILE * level.size.extent;
    const real* __restrict b_im = b + imaginary;
    real* __restrict g_im = g_b + imaginary;
    real sum = 0, sum_im = 0;
    if (level.layer.rotate == Rotate::input) {
#pragma omp simd reduction(+ : sum, sum_im)
        for (int64_t d = 0; d < D; d++) {
            const int64_t i = shared ? 0 : d;
            const real re = g_u[d], im = g_u[D + d];
            const real by = w[d] * re + w[D + d] * im, by_im = w[d] * im - w[D + d] * re;
            if (shared) sum += by, sum_im += by_im;
            else g_b[d] = by, g_im[d] = by_im;
            g_w[d] = b[i] * re + b_im[i] * im;
            g_w[D + d] = b[i] * im - b_im[i] * re;
        }
    } else {
        if (!shared) std::memset(g_b, 0, D * sizeof(real)), std::memset(g_im, 0, D * sizeof(real));
        for (int64_t plane = 0; plane < level.size.m; plane++, w += D, g_u += D, g_w += D) {
#pragma omp simd reduction(+ : sum)
            for (int64_t d = 0; d < D; d++) {
                if (shared) sum += w[d] * g_u[d];
                else g_b[d] += w[d] * g_u[d];
                g_w[d] = b[shared ? 0 : d] * g_u[d];
            }
        }
    }
    if (shared) *g_b = sum, *g_im = sum_im;
}

// a of one entry where it is a matrix, α Q; alpha has an extent.
template <typename real>
void turn_matrix(const Level<real>& level, const real* theta, const real* alpha, real* a, double* memory) {
    const int64_t m = level.size.m, extent = level.size.extent, E = level.layer.angles / level.size.turns;
    const double* Q = Rotation<real>(m, E, memory).forward(theta);
    for (int64_t entry = 0; entry < m * m; entry++)
        for (int64_t d = 0; d < extent; d++) a[entry * extent + d] = alpha[d] * real(Q[entry * E + (E == 1 ? 0 : d)]);
}

// From the gradient of a to the gradients of theta and alpha.
template <typename real>
void turn_matrix_adjoint(const Level<real>& level, const real* theta, const real* alpha, const real* g_a, real* g_theta,
                         real* g_alpha, double* memory) {
    const int64_t m = level.size.m, extent = level.size.extent, E = level.layer.angles / level.size.turns;
    Rotation<real> rotation(m, E, memory);
    const double* Q = rotation.forward(theta);
    std::memset(rotation.g, 0, rotation.size * sizeof(double));
    std::memset(g_alpha, 0, extent * sizeof(real));
    for (int64_t entry = 0; entry < m * m; entry++)
        for (int64_t d = 0; d < extent; d++) {
            const int64_t e = entry * E + (E == 1 ? 0 : d);
            g_alpha[d] += g_a[entry * extent + d] * real(Q[e]);
            rotation.g[e] += double(g_a[entry * extent + d]) * alpha[d];
        }
    rotation.backward(theta, g_theta);
}

template <typename real>
void entries_forward(const Level<real>& level, const Entries<real>& entries, int64_t count,
                     const Memory<real>& memory) {
    const Layer& layer = level.layer;
    const int64_t state = level.size.state, extent = level.size.extent, planes = level.size.planes;
    const bool matrix = planes > 2;
    const Gating<real>& s = memory.gating;
    project(level.angle_weight, level.angle_bias, entries.z, entries.theta, count, layer.angle_inputs, layer.angles,
            state, layer.angles, 1);
    project(level.gate_weight, level.gate_bias, entries.z, entries.delta, count, state, layer.gates, state,
            layer.gates, 1);
    const Gates<real> gates{level, entries, s};
    for (int64_t first = 0; first < count; first += TILE) {
        const int64_t steps = count - first < TILE ? count - first : TILE;
        gates.forward(first, steps);
        for (int64_t k = 0; k < steps; k++) {
            const int64_t e = first + k;
            real* a = entries.a + e * level.size.numbers;
            if (matrix) turn_matrix(level, entries.theta + e * layer.angles, s.a + k * extent, a, memory.rotation);
            for (int64_t plane = 0; !matrix && plane < planes; plane++)
                std::memcpy(a + plane * extent, s.a + (plane * TILE + k) * extent, extent * sizeof(real));
            const real* w = entering(level, entries.z + e * state, memory.free);
            if (extent == 1) multiply<true>(level, s.b + k * extent, w, entries.u + e * state);
            else multiply<false>(level, s.b + k * extent, w, entries.u + e * state);
        }
    }
}

// From g_a and g_u to the gradients of the projections. Adds to the gradient of z.
template <typename real>
void entries_backward(const Level<real>& level, const Entries<real>& entries, int64_t count,
                      const Memory<real>& memory) {
    const Layer& layer = level.layer;
    const int64_t state = level.size.state, extent = level.size.extent, planes = level.size.planes;
    const bool matrix = planes > 2;
    const Gating<real>& s = memory.gating;
    const Gates<real> gates{level, entries, s};
    for (int64_t first = 0; first < count; first += TILE) {
        const int64_t steps = count - first < TILE ? count - first : TILE;
        gates.forward(first, steps);
        std::memset(s.g_b, 0, 2 * TILE * extent * sizeof(real));
        for (int64_t k = 0; k < steps; k++) {
            const int64_t e = first + k;
            const real* g_a = entries.g_a + e * level.size.numbers;
            if (matrix)
                turn_matrix_adjoint(level, entries.theta + e * layer.angles, s.a + k * extent, g_a,
                                    entries.g_theta + e * layer.angles, s.g_a + k * extent, memory.rotation);
            for (int64_t plane = 0; !matrix && plane < planes; plane++)
                std::memcpy(s.g_a + (plane * TILE + k) * extent, g_a + plane * extent, extent * sizeof(real));
            const real *z = entries.z + e * state, *g_u = entries.g_u + e * state, *b = s.b + k * extent;
            const real* w = entering(level, z, memory.free);
            real *g_w = memory.free + state, *g_b = s.g_b + k * extent;
            if (extent == 1) multiply_adjoint<true>(level, b, w, g_u, g_b, g_w);
            else multiply_adjoint<false>(level, b, w, g_u, g_b, g_w);
            entering_adjoint(level, z, g_w, entries.g_z + e * state);
        }
        gates.backward(first, steps);
    }
    project_adjoint(level.angle_weight, level.g_angle_weight, level.g_angle_bias, entries.z, entries.g_theta, entries.g_z,
                    count, layer.angle_inputs, layer.angles, state, layer.angles, 1);
    project_adjoint(level.gate_weight, level.g_gate_weight, level.g_gate_bias, entries.z, entries.g_delta, entries.g_z,
                    count, state, layer.gates, state, layer.gates, 1);
}

}  // namespace TARGET
