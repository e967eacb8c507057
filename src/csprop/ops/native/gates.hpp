// The gates of a layer: from theta and delta to a and b, and the gradients back. level.hpp has the names.
#pragma once

#include "level.hpp"

namespace TARGET {

// From the gates' raw numbers to a and b for a tile of entries, and back; once an entry where every gate is shared by
// the channels (extent 1), else once a channel (extent D). The angles of a matrix are rotors.hpp's.
template <typename real>
struct Gates {
    const Level<real>& level;
    const Entries<real>& entries;
    const Gating<real>& s;
    const Layer& layer = level.layer;
    const int64_t D = level.size.D, extent = level.size.extent, angles = layer.angles / level.size.turns;
    const int64_t imaginary = TILE * extent;  // from a real part to its imaginary one
    const Rotate rotate = level.size.planes > 2 ? Rotate::none : layer.rotate;
    // θ rotates either b, of size γ, or a, of size α. The other one is real.
    const bool of_state = rotate == Rotate::state;

    // For the entries from `first` on, at most a tile.
    void forward(int64_t first, int64_t count) const {
        const int64_t n = count * extent;
        const Decay decay = layer.decay;
        real *__restrict alpha = s.alpha, *__restrict gamma = s.gamma, *__restrict delta = s.delta;
        if (layer.gates) spread(entries.delta + first * layer.gates, layer.gates, delta, count);
        if (!layer.gates) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) alpha[i] = 1, gamma[i] = decay == Decay::count;
        } else if (decay == Decay::switch_) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) alpha[i] = delta[i] > 0, gamma[i] = 1 - alpha[i];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) gamma[i] = softplus(delta[i]);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                alpha[i] = decay == Decay::exp ? exponential(-gamma[i]) : decay == Decay::unit ? real(1) : gamma[i];
        }
        turn(first, count);
        real *__restrict re = of_state ? s.a : s.b, *__restrict straight = of_state ? s.b : s.a;
        real *__restrict im = re + imaginary, *__restrict zero = straight + imaginary;
        const real *__restrict turned = of_state ? alpha : gamma, *__restrict other = of_state ? gamma : alpha;
        const real *__restrict cosine = s.cosine, *__restrict sine = s.sine;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            re[i] = turned[i] * cosine[i];
            im[i] = turned[i] * sine[i];
            straight[i] = other[i];
            zero[i] = 0;
        }
    }

    // From the gradients of a and b to those of theta and delta.
    void backward(int64_t first, int64_t count) const {
        const int64_t n = count * extent;
        const Decay decay = layer.decay;
        real *__restrict re = of_state ? s.g_a : s.g_b, *__restrict im = re + imaginary;
        const real* __restrict straight = of_state ? s.g_b : s.g_a;
        real *__restrict theta = s.theta, *__restrict delta = s.delta;
        const real *__restrict cosine = s.cosine, *__restrict sine = s.sine;
        const real *__restrict alpha = s.alpha, *__restrict gamma = s.gamma;
        const real* __restrict turned = of_state ? alpha : gamma;
        const real pi = layer.bounded_angle ? real(M_PI) : real(0);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const real slope = pi ? pi - theta[i] * theta[i] / pi : real(std::fabs(theta[i]) < real(ANGLE_LIMIT));
            theta[i] = slope * turned[i] * (cosine[i] * im[i] - sine[i] * re[i]);
            re[i] = cosine[i] * re[i] + sine[i] * im[i];
        }
        if (rotate != Rotate::none) collect(theta, angles, entries.g_theta + first * angles, count);
        if (!layer.gates) return;
        const real *__restrict g_alpha = of_state ? re : straight, *__restrict g_gamma = of_state ? straight : re;
        if (decay == Decay::switch_) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                real opened, closed;  // a switch has the slope of the sigmoid that it rounds
                sigmoid_both(delta[i], opened, closed);
                delta[i] = opened * closed * (g_alpha[i] - g_gamma[i]);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                const real slope = delta[i] > 20 ? real(1) : sigmoid(delta[i]);
                const real by_alpha = decay == Decay::exp    ? -alpha[i] * g_alpha[i]
                                      : decay == Decay::unit ? real(0)
                                                             : g_alpha[i];
                delta[i] = slope * (g_gamma[i] + by_alpha);
            }
        }
        collect(delta, layer.gates, entries.g_delta + first * layer.gates, count);
    }

   private:
    // θ, cos θ and sin θ; without a rotation θ = 0.
    void turn(int64_t first, int64_t count) const {
        const int64_t n = count * extent;
        real *__restrict theta = s.theta, *__restrict cosine = s.cosine, *__restrict sine = s.sine;
        if (rotate == Rotate::none) std::memset(theta, 0, n * sizeof(real));
        else spread(entries.theta + first * angles, angles, theta, count);
        if (layer.bounded_angle) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) theta[i] = real(M_PI) * hyperbolic_tangent(theta[i]);
        } else {
            constexpr real most = real(ANGLE_LIMIT);
#pragma omp simd
            for (int64_t i = 0; i < n; i++) theta[i] = theta[i] > most ? most : theta[i] < -most ? -most : theta[i];
            if (level.parts) round_angles(count);
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++) cos_sin(theta[i], cosine[i], sine[i]);
    }

    // To whole multiples of 2π/k; where k is 0, an angle stays as it is.
    void round_angles(int64_t count) const {
        const real* __restrict parts = level.parts;
        for (real* __restrict theta = s.theta; theta < s.theta + count * D; theta += D) {
#pragma omp simd
            for (int64_t d = 0; d < D; d++) {
                const real unit = real(2 * M_PI) / parts[d], whole = rounded(theta[d] / unit) * unit;
                theta[d] = parts[d] > 0 ? whole : theta[d];
            }
        }
    }

    // (count, 1 or D) to (count, extent), and the sum the other way.
    void spread(const real* from, int64_t columns, real* __restrict to, int64_t count) const {
        if (columns == extent) std::memcpy(to, from, count * extent * sizeof(real));
        else
            for (int64_t t = 0; t < count; t++)
                for (int64_t d = 0; d < D; d++) to[t * D + d] = from[t];
    }

    void collect(const real* from, int64_t columns, real* __restrict to, int64_t count) const {
        if (columns == extent) std::memcpy(to, from, count * extent * sizeof(real));
        else
            for (int64_t t = 0; t < count; t++) to[t] = total(from + t * D, D);
    }
};

}  // namespace TARGET
