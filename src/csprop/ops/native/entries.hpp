// From the inputs of a layer to a and u of its recurrence, h_t = a_t h_{t-1} + u_t with u = b w, and the adjoint.
// See block.hpp for the names. The gates of a tile of entries are computed again in the adjoint.
#pragma once

#include "adjoint.hpp"
#include "plan.hpp"

namespace TARGET {

// A layer of a model in training, with its tensors and where their gradients go.
template <typename real>
struct Level {
    const Layer& layer;
    const Extents size;
    const real *angle_weight, *angle_bias, *gate_weight, *gate_bias, *start, *strength;
    real *g_angle_weight, *g_angle_bias, *g_gate_weight, *g_gate_bias, *g_start, *g_skip;

    // `gradients`: of all tensors; `prepared` says where a state starts, and how strong a skip is.
    INLINE Level(const Plan& plan, const Prepared<real>& prepared, int64_t number, real* gradients)
        : layer(plan.model->layers[number]), size(*plan.model, layer) {
        const auto value = [&](int64_t i) {
            return i < 0 ? nullptr : static_cast<const real*>(plan.model->weights[i].value);
        };
        const auto gradient = [&](int64_t i) { return i < 0 ? nullptr : gradients + plan.offsets[i]; };
        angle_weight = value(layer.angle_weight), g_angle_weight = gradient(layer.angle_weight);
        angle_bias = value(layer.angle_bias), g_angle_bias = gradient(layer.angle_bias);
        gate_weight = value(layer.gate_weight), g_gate_weight = gradient(layer.gate_weight);
        gate_bias = value(layer.gate_bias), g_gate_bias = gradient(layer.gate_bias);
        start = prepared.start + number * size.state, g_start = gradient(layer.start);
        strength = prepared.strength + number * size.D, g_skip = gradient(layer.skip);
    }

    bool replaces() const { return layer.decay == RESET || layer.decay == SWITCH; }

    // What `Gates` reads, for some entries.
    Block gating(const Entries<real>& entries) const {
        Block block{};
        block.width = size.D, block.angles = layer.angles, block.gates = layer.gates;
        block.rotate = layer.rotate, block.bounded_angle = layer.bounded_angle, block.decay = layer.decay;
        block.theta = entries.theta, block.delta = entries.delta;
        block.g_theta = entries.g_theta, block.g_delta = entries.g_delta;
        return block;
    }
};

// y = W x + b for the inputs of some entries, and its adjoint.
template <typename real>
void project(const real* weight, const real* bias, const real* x, real* y, int64_t count, int64_t inputs,
             int64_t outputs, int64_t stride) {
    for (int64_t o = 0; weight && o < outputs; o++)
        for (int64_t e = 0; e < count; e++)
            y[e * outputs + o] = dot(weight + o * inputs, x + e * stride, inputs) + (bias ? bias[o] : real(0));
}

template <typename real>
void project_adjoint(const real* weight, real* g_weight, real* g_bias, const real* x, const real* g_y, real* g_x,
                     int64_t count, int64_t inputs, int64_t outputs, int64_t stride) {
    for (int64_t o = 0; weight && o < outputs; o++) {
        const real* __restrict w = weight + o * inputs;
        real* __restrict g_w = g_weight + o * inputs;
        for (int64_t e = 0; e < count; e++) {
            const real g = g_y[e * outputs + o];
            const real* __restrict from = x + e * stride;
            real* __restrict to = g_x + e * stride;
            if (g_bias) g_bias[o] += g;
#pragma omp simd
            for (int64_t i = 0; i < inputs; i++) {
                to[i] += g * w[i];
                g_w[i] += g * from[i];
            }
        }
    }
}

// w of one entry: z, or z / (|z| + ε) where the gate resets.
template <typename real>
const real* entering(const Level<real>& level, const real* __restrict z, real* __restrict w) {
    const int64_t D = level.size.D;
    if (!level.replaces()) return z;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const real scale = 1 / (size(z[d], z[D + d]) + real(EPSILON));
        w[d] = z[d] * scale, w[D + d] = z[D + d] * scale;
    }
    return w;
}

// Adds to g_z what reaches it through w.
template <typename real>
void entering_adjoint(const Level<real>& level, const real* __restrict z, const real* __restrict g_w, real* __restrict g_z) {
    const int64_t D = level.size.D;
    const bool replaces = level.replaces();
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        real re = g_w[d], im = g_w[D + d];
        if (replaces) unit_adjoint(z[d], z[D + d], re, im, re, im);
        g_z[d] += re;
        g_z[D + d] += im;
    }
}

template <bool shared, typename real>
void multiply(const real* __restrict b, const real* __restrict b_im, const real* __restrict w, real* __restrict u,
              int64_t D) {
#pragma omp simd
    for (int64_t d = 0; d < D; d++) {
        const int64_t i = shared ? 0 : d;
        u[d] = b[i] * w[d] - b_im[i] * w[D + d];
        u[D + d] = b[i] * w[D + d] + b_im[i] * w[d];
    }
}

// From g_u to g_b and g_w.
template <bool shared, typename real>
void multiply_adjoint(const real* __restrict b, const real* __restrict b_im, const real* __restrict w,
                      const real* __restrict g_u, real* __restrict g_b, real* __restrict g_b_im,
                      real* __restrict g_w, int64_t D) {
    real sum = 0, sum_im = 0;
#pragma omp simd reduction(+ : sum, sum_im)
    for (int64_t d = 0; d < D; d++) {
        const int64_t i = shared ? 0 : d;
        const real re = g_u[d], im = g_u[D + d];
        const real by = w[d] * re + w[D + d] * im, by_im = w[d] * im - w[D + d] * re;
        if (shared) sum += by, sum_im += by_im;
        else g_b[d] = by, g_b_im[d] = by_im;
        g_w[d] = b[i] * re + b_im[i] * im;
        g_w[D + d] = b[i] * im - b_im[i] * re;
    }
    if (shared) *g_b = sum, *g_b_im = sum_im;
}

template <typename real>
void entries_forward(const Level<real>& level, const Entries<real>& entries, int64_t count, const Memory<real>& memory) {
    const Layer& layer = level.layer;
    const int64_t D = level.size.D, state = level.size.state, extent = level.size.extent, im = TILE * extent;
    const int64_t planes = level.size.transition / extent;
    const Scratch<real> s(memory.scratch, D, 0);
    project(level.angle_weight, level.angle_bias, entries.z, entries.theta, count, layer.angle_inputs, layer.angles, state);
    project(level.gate_weight, level.gate_bias, entries.z, entries.delta, count, state, layer.gates, state);
    const Block gating = level.gating(entries);
    for (int64_t first = 0; first < count; first += TILE) {
        const int64_t steps = count - first < TILE ? count - first : TILE;
        Gates<real>{gating, s}.forward(first, steps);
        for (int64_t k = 0; k < steps; k++) {
            const int64_t e = first + k;
            for (int64_t plane = 0; plane < planes; plane++)
                std::memcpy(entries.a + (e * planes + plane) * extent, s.a + plane * im + k * extent, extent * sizeof(real));
            const real *w = entering(level, entries.z + e * state, memory.features), *b = s.b + k * extent;
            if (extent == 1) multiply<true>(b, b + im, w, entries.u + e * state, D);
            else multiply<false>(b, b + im, w, entries.u + e * state, D);
        }
    }
}

// From g_a and g_u to the gradients of projections, and of z, to which it adds.
template <typename real>
void entries_backward(const Level<real>& level, const Entries<real>& entries, int64_t count, const Memory<real>& memory) {
    const Layer& layer = level.layer;
    const int64_t D = level.size.D, state = level.size.state, extent = level.size.extent, im = TILE * extent;
    const int64_t planes = level.size.transition / extent;
    const Scratch<real> s(memory.scratch, D, 0);
    const Block gating = level.gating(entries);
    const Gates<real> gates{gating, s};
    for (int64_t first = 0; first < count; first += TILE) {
        const int64_t steps = count - first < TILE ? count - first : TILE;
        gates.forward(first, steps);
        for (int64_t k = 0; k < steps; k++) {
            const int64_t e = first + k;
            for (int64_t plane = 0; plane < planes; plane++)
                std::memcpy(s.g_a + plane * im + k * extent, entries.g_a + (e * planes + plane) * extent, extent * sizeof(real));
            const real *z = entries.z + e * state, *g_u = entries.g_u + e * state;
            const real *w = entering(level, z, memory.features), *b = s.b + k * extent;
            real *g_w = memory.features + 2 * D, *g_b = s.g_b + k * extent, *g_z = entries.g_z + e * state;
            if (extent == 1) multiply_adjoint<true>(b, b + im, w, g_u, g_b, g_b + im, g_w, D);
            else multiply_adjoint<false>(b, b + im, w, g_u, g_b, g_b + im, g_w, D);
            entering_adjoint(level, z, g_w, g_z);
        }
        gates.backward(first, steps);
    }
    project_adjoint(level.angle_weight, level.g_angle_weight, level.g_angle_bias, entries.z, entries.g_theta, entries.g_z,
                    count, layer.angle_inputs, layer.angles, state);
    project_adjoint(level.gate_weight, level.g_gate_weight, level.g_gate_bias, entries.z, entries.g_delta, entries.g_z,
                    count, state, layer.gates, state);
}

}  // namespace TARGET
