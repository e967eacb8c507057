// The gates of a block: from theta and delta to a and b, and the gradients back. See block.hpp for the names.
#pragma once

#include "layout.hpp"
#include "planes.hpp"

namespace TARGET {

// What one thread needs beside its arguments. Complex numbers are two planes: (2, D), (2, TILE, D).
template <typename real>
struct Scratch {
    real *h, *w, *p, *g, *mu, *carry, *g_skip;            // (2, D)
    real *a, *b, *g_a, *g_b;                              // (2, TILE, D)
    real *theta, *delta, *alpha, *gamma, *cosine, *sine;  // (TILE, D)

    Scratch(void* memory, int64_t width) {
        real* next = static_cast<real*>(memory);
        for (real** each : {&h, &w, &p, &g, &mu, &carry, &g_skip}) *each = next, next += 2 * width;
        for (real** each : {&a, &b, &g_a, &g_b}) *each = next, next += 2 * TILE * width;
        for (real** each : {&theta, &delta, &alpha, &gamma, &cosine, &sine})
            *each = next, next += TILE * width;
    }
};

// From the gates' raw numbers to a and b for a tile of steps, and back. The functions are computed once
// a step where every gate is shared by the channels, else once a channel.
template <typename real>
struct Gates {
    const Block& block;
    Scratch<real>& s;
    const int64_t D = block.width;
    const int64_t extent = block.angles <= 1 && block.gates == 1 ? 1 : D;
    // θ turns either b, of size γ, or a, of size α; the other one of them is real.
    const bool of_state = block.rotate == STATE;
    real *const turned = of_state ? s.a : s.b, *const straight = of_state ? s.b : s.a;
    real *const turned_size = of_state ? s.alpha : s.gamma, *const straight_size = of_state ? s.gamma : s.alpha;

    void forward(int64_t step, int64_t steps) const {
        const int64_t n = steps * extent;
        real *__restrict alpha = s.alpha, *__restrict gamma = s.gamma, *__restrict delta = s.delta;
        spread(at<real>(block.delta, step * block.gates), block.gates, delta, steps);
        if (block.decay == RESET) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) alpha[i] = sigmoid(delta[i]), gamma[i] = sigmoid(-delta[i]);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) gamma[i] = softplus(delta[i]);
            const int64_t decay = block.decay;
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                alpha[i] = decay == EXP ? exponential(-gamma[i]) : decay == UNIT ? real(1) : gamma[i];
        }
        if (block.rotate != NONE) turn(step, steps);
        for (int64_t t = 0; t < steps; t++) {
            if (extent == 1) write<true>(t);
            else write<false>(t);
        }
    }

    // From the gradients of a and b to those of theta and delta.
    void backward(int64_t step, int64_t steps) const {
        const int64_t n = steps * extent;
        real *__restrict re = of_state ? s.g_a : s.g_b, *__restrict im = re + TILE * D;
        real* __restrict plain = of_state ? s.g_b : s.g_a;
        for (real* each : {re, im, plain}) gather(each, steps);
        real *__restrict theta = s.theta, *__restrict delta = s.delta;
        const real *__restrict cosine = s.cosine, *__restrict sine = s.sine;
        const real *__restrict alpha = s.alpha, *__restrict gamma = s.gamma, *__restrict size = turned_size;
        if (block.rotate != NONE) {
            const real pi = block.bounded_angle ? real(M_PI) : real(0);
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                const real slope = pi ? pi - theta[i] * theta[i] / pi : real(1);
                theta[i] = slope * size[i] * (cosine[i] * im[i] - sine[i] * re[i]);
                re[i] = cosine[i] * re[i] + sine[i] * im[i];
            }
            collect(theta, block.angles, at<real>(block.g_theta, step * block.angles), steps);
        }
        const real *__restrict g_alpha = of_state ? re : plain, *__restrict g_gamma = of_state ? plain : re;
        const int64_t decay = block.decay;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const real slope = delta[i] > 20 ? real(1) : sigmoid(delta[i]);
            const real by_alpha = decay == EXP ? -alpha[i] * g_alpha[i] : decay == UNIT ? real(0) : g_alpha[i];
            delta[i] = decay == RESET ? alpha[i] * gamma[i] * (g_alpha[i] - g_gamma[i])
                                      : slope * (g_gamma[i] + by_alpha);
        }
        collect(delta, block.gates, at<real>(block.g_delta, step * block.gates), steps);
    }

   private:
    void turn(int64_t step, int64_t steps) const {
        const int64_t n = steps * extent;
        real *__restrict theta = s.theta, *__restrict cosine = s.cosine, *__restrict sine = s.sine;
        spread(at<real>(block.theta, step * block.angles), block.angles, theta, steps);
        if (block.bounded_angle) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) theta[i] = real(M_PI) * hyperbolic_tangent(theta[i]);
        }
        int far = 0;
#pragma omp simd reduction(| : far)
        for (int64_t i = 0; i < n; i++) {
            far |= !(std::fabs(theta[i]) <= Format<real>::far);
            cos_sin(theta[i], cosine[i], sine[i]);
        }
        if (!far) return;
        for (int64_t i = 0; i < n; i++) cosine[i] = std::cos(theta[i]), sine[i] = std::sin(theta[i]);
    }

    // a and b of step t of the tile, for every channel.
    template <bool shared>
    void write(int64_t t) const {
        real *__restrict re = turned + t * D, *__restrict im = re + TILE * D;
        real *__restrict plain = straight + t * D, *__restrict nothing = plain + TILE * D;
        const real *__restrict size = turned_size + t * extent, *__restrict other = straight_size + t * extent;
        const real *__restrict cosine = s.cosine + t * extent, *__restrict sine = s.sine + t * extent;
        const bool still = block.rotate == NONE;
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            const int64_t i = shared ? 0 : d;
            re[d] = still ? size[i] : size[i] * cosine[i];
            im[d] = still ? real(0) : size[i] * sine[i];
            plain[d] = other[i];
            nothing[d] = 0;
        }
    }

    // (steps, 1 or D) to (steps, extent), and the sum the other way.
    void spread(const real* from, int64_t columns, real* __restrict to, int64_t steps) const {
        for (int64_t t = 0; t < steps; t++)
            for (int64_t d = 0; d < extent; d++) to[t * extent + d] = from[columns == 1 ? t : t * D + d];
    }

    void collect(const real* from, int64_t columns, real* __restrict to, int64_t steps) const {
        for (int64_t t = 0; t < steps; t++) {
            if (columns == 1) to[t] = total(from + t * extent, extent);
            else std::memcpy(to + t * D, from + t * D, D * sizeof(real));
        }
    }

    // (steps, D) to (steps, extent), in place.
    void gather(real* x, int64_t steps) const {
        if (extent == 1)
            for (int64_t t = 0; t < steps; t++) x[t] = total(x + t * D, D);
    }
};

}  // namespace TARGET
