// The gates of a block: from theta and delta to a and b, and the gradients back. See block.hpp for the names.
#pragma once

#include "layout.hpp"
#include "planes.hpp"

namespace TARGET {

inline bool gates_shared(const Block& block) { return block.angles <= 1 && block.gates <= 1; }

// What one thread needs beside its arguments. Complex numbers are two planes: (2, D), (2, TILE, extent).
template <typename real>
struct Scratch {
    real *h, *p, *g, *mu, *gate, *zero;                   // (2, D); zero stands for what is absent
    real *a, *b, *g_a, *g_b;                              // (2, TILE, extent)
    real *theta, *delta, *alpha, *gamma, *cosine, *sine;  // (TILE, extent)
    real* between;                                        // (TILE, 2, D), from one layer to the next
    real *carry, *skip;                                   // (2, D), (D)

    // Layers share it, but for what a layer carries from tile to tile.
    Scratch(void* memory, int64_t width, int64_t layer) {
        real* next = static_cast<real*>(memory);
        for (real** each : {&h, &p, &g, &mu, &gate, &zero}) *each = next, next += 2 * width;
        for (real** each : {&a, &b, &g_a, &g_b}) *each = next, next += 2 * TILE * width;
        for (real** each : {&theta, &delta, &alpha, &gamma, &cosine, &sine}) *each = next, next += TILE * width;
        between = next + layer % 2 * 2 * TILE * width, next += 4 * TILE * width;
        next += layer * 3 * width;
        carry = next, skip = next + 2 * width;
    }
};

inline int64_t group_of(const Block& block, int64_t row) { return row / (block.batch / block.groups); }

// One of the two projections of a row, theta or delta = W z + b, where all channels share its one result;
// elsewhere there is no weight, and nothing is done.
template <typename real>
struct Projection {
    const int64_t inputs, D;
    const real *weight, *bias;
    real *result, *g_result, *g_weight, *g_bias;

    Projection(const Block& block, const ProjectionFields& fields, int64_t row)
        : inputs(block.*fields.inputs),
          D(block.width),
          weight(block.*fields.outputs == 1 ? at<real>(block.*fields.weight, group_of(block, row) * inputs) : nullptr),
          bias(at<real>(block.*fields.bias, group_of(block, row))),
          result(at<real>(block.*fields.result, 0)),
          g_result(at<real>(block.*fields.g_result, 0)),
          g_weight(at<real>(block.*fields.g_weight, row * inputs)),
          g_bias(at<real>(block.*fields.g_bias, row)) {}

    // For the steps from `step` on; z is where they start.
    void forward(const real* z, int64_t step, int64_t steps) const {
        for (int64_t t = 0; weight && t < steps; t++)
            result[step + t] = dot(weight, z + t * 2 * D, inputs) + (bias ? *bias : real(0));
    }

    void backward(const real* z, real* g_z, int64_t step, int64_t steps) const {
        for (int64_t t = 0; weight && t < steps; t++) {
            const real *__restrict x = z + t * 2 * D, *__restrict w = weight, g = g_result[step + t];
            if (g_bias) *g_bias += g;
            real *__restrict g_x = g_z + t * 2 * D, *__restrict g_w = g_weight;
#pragma omp simd
            for (int64_t i = 0; i < inputs; i++) {
                g_x[i] += g * w[i];
                g_w[i] += g * x[i];
            }
        }
    }
};

// From the gates' raw numbers to a and b for a tile of steps, and back; once a step where every gate is
// shared by the channels (extent 1), else once a channel (extent D).
template <typename real>
struct Gates {
    const Block& block;
    const Scratch<real>& s;
    const int64_t D = block.width;
    const int64_t extent = gates_shared(block) ? 1 : D;
    const int64_t imaginary = TILE * extent;  // from a real part to its imaginary one
    // θ turns either b, of size γ, or a, of size α; the other one of them is real.
    const bool of_state = block.rotate == STATE;

    void forward(int64_t step, int64_t steps) const {
        const int64_t n = steps * extent, decay = block.decay;
        real *__restrict alpha = s.alpha, *__restrict gamma = s.gamma, *__restrict delta = s.delta;
        if (block.gates) spread(at<real>(block.delta, step * block.gates), block.gates, delta, steps);
        if (!block.gates) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) alpha[i] = 1, gamma[i] = decay == COUNT;
        } else if (decay == SWITCH) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) alpha[i] = delta[i] > 0, gamma[i] = 1 - alpha[i];
        } else if (decay == RESET) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) sigmoid_both(delta[i], alpha[i], gamma[i]);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) gamma[i] = softplus(delta[i]);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                alpha[i] = decay == EXP ? exponential(-gamma[i]) : decay == UNIT ? real(1) : gamma[i];
        }
        turn(step, steps);
        real *__restrict re = of_state ? s.a : s.b, *__restrict plain = of_state ? s.b : s.a;
        real *__restrict im = re + imaginary, *__restrict nothing = plain + imaginary;
        const real *__restrict turned = of_state ? alpha : gamma, *__restrict straight = of_state ? gamma : alpha;
        const real *__restrict cosine = s.cosine, *__restrict sine = s.sine;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            re[i] = turned[i] * cosine[i];
            im[i] = turned[i] * sine[i];
            plain[i] = straight[i];
            nothing[i] = 0;
        }
    }

    // From the gradients of a and b to those of theta and delta.
    void backward(int64_t step, int64_t steps) const {
        const int64_t n = steps * extent, decay = block.decay;
        real *__restrict re = of_state ? s.g_a : s.g_b, *__restrict im = re + imaginary;
        const real* __restrict plain = of_state ? s.g_b : s.g_a;
        real *__restrict theta = s.theta, *__restrict delta = s.delta;
        const real *__restrict cosine = s.cosine, *__restrict sine = s.sine;
        const real *__restrict alpha = s.alpha, *__restrict gamma = s.gamma;
        const real* __restrict turned = of_state ? alpha : gamma;
        const real pi = block.bounded_angle ? real(M_PI) : real(0);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const real slope = pi ? pi - theta[i] * theta[i] / pi : real(std::fabs(theta[i]) < real(ANGLE_LIMIT));
            theta[i] = slope * turned[i] * (cosine[i] * im[i] - sine[i] * re[i]);
            re[i] = cosine[i] * re[i] + sine[i] * im[i];
        }
        if (block.rotate != NONE) collect(theta, block.angles, at<real>(block.g_theta, step * block.angles), steps);
        if (!block.gates) return;
        const real *__restrict g_alpha = of_state ? re : plain, *__restrict g_gamma = of_state ? plain : re;
        if (decay == RESET || decay == SWITCH) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                real opened, closed;  // a switch has the slope of what it rounds
                sigmoid_both(delta[i], opened, closed);
                delta[i] = opened * closed * (g_alpha[i] - g_gamma[i]);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                const real slope = delta[i] > 20 ? real(1) : sigmoid(delta[i]);
                const real by_alpha = decay == EXP ? -alpha[i] * g_alpha[i] : decay == UNIT ? real(0) : g_alpha[i];
                delta[i] = slope * (g_gamma[i] + by_alpha);
            }
        }
        collect(delta, block.gates, at<real>(block.g_delta, step * block.gates), steps);
    }

   private:
    // θ, cos θ and sin θ; without a rotation θ = 0.
    void turn(int64_t step, int64_t steps) const {
        const int64_t n = steps * extent;
        real *__restrict theta = s.theta, *__restrict cosine = s.cosine, *__restrict sine = s.sine;
        if (block.rotate == NONE) std::memset(theta, 0, n * sizeof(real));
        else spread(at<real>(block.theta, step * block.angles), block.angles, theta, steps);
        if (block.bounded_angle) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) theta[i] = real(M_PI) * hyperbolic_tangent(theta[i]);
        } else {
            constexpr real most = real(ANGLE_LIMIT);
#pragma omp simd
            for (int64_t i = 0; i < n; i++) theta[i] = theta[i] > most ? most : theta[i] < -most ? -most : theta[i];
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++) cos_sin(theta[i], cosine[i], sine[i]);
    }

    // (steps, 1 or D) to (steps, extent), and the sum the other way.
    void spread(const real* from, int64_t columns, real* __restrict to, int64_t steps) const {
        if (columns == extent) std::memcpy(to, from, steps * extent * sizeof(real));
        else
            for (int64_t t = 0; t < steps; t++)
                for (int64_t d = 0; d < D; d++) to[t * D + d] = from[t];
    }

    void collect(const real* from, int64_t columns, real* __restrict to, int64_t steps) const {
        if (columns == extent) std::memcpy(to, from, steps * extent * sizeof(real));
        else
            for (int64_t t = 0; t < steps; t++) to[t] = total(from + t * D, D);
    }
};

}  // namespace TARGET
