// Rotations of SO(m) in every channel, Q = exp(A), A skew: the angle of planes i < j stands at (j, i), and its
// negative at (i, j). With B = A / 2^s of a norm of at most 1:
//   P_K = I      P_{k-1} = I + B P_k / k      X_0 = P_0      X_{i+1} = X_i²      Q = X_s
// Adjoint, from g = g_Q:
//   squares    g ← g X_iᵀ + X_iᵀ g                       from i = s − 1 down to 0
//   series     g_B += g P_kᵀ / k      g ← Bᵀ g / k       from k = 1 up to K
// All in double precision: repeated squaring would make the rounding errors of single precision visible.
#pragma once

#include "plan.hpp"
#include "planes.hpp"

namespace TARGET {

template <typename real>
struct Rotation {
    const int64_t m, E, size = m * m * E;  // E: channels, or 1 for all of them
    double *const memory, *const A = memory, *const g = memory + size, *const g_A = memory + 2 * size;
    double *const more = memory + 3 * size, *const P = memory + 4 * size, *const X = P + (TERMS + 1) * size;
    int64_t squarings = 0;

    Rotation(int64_t m, int64_t E, double* memory) : m(m), E(E), memory(memory) {}

    // Q, (m, m, E), of angles (m (m − 1) / 2, E).
    const double* forward(const real* angles) {
        std::memset(A, 0, size * sizeof(double));
        double most = 0;
        each_angle([&](double* up, double* down, int64_t k) {
            for (int64_t e = 0; e < E; e++) {
                const real angle = angles[k * E + e];
                down[e] = angle > ANGLE_LIMIT ? ANGLE_LIMIT : angle < -ANGLE_LIMIT ? -ANGLE_LIMIT : angle;
                up[e] = -down[e];
                most = std::fabs(down[e]) > most ? std::fabs(down[e]) : most;
            }
        });
        most *= double(m - 1);  // the largest sum of a row, at most
        for (squarings = 0; most > 1 && squarings < SQUARINGS; squarings++) most /= 2;
        const double scale = std::ldexp(1.0, -int(squarings));
        for (int64_t i = 0; i < size; i++) A[i] *= scale;
        identity(P + TERMS * size);
        for (int64_t k = TERMS; k > 0; k--) {
            identity(P + (k - 1) * size);
            multiply<false, false>(A, P + k * size, P + (k - 1) * size, 1.0 / double(k));
        }
        for (int64_t i = 0; i < squarings; i++) {
            std::memset(square(i + 1), 0, size * sizeof(double));
            multiply<false, false>(square(i), square(i), square(i + 1), 1.0);
        }
        return square(squarings);
    }

    // From g, the gradient of Q, to the gradient of the angles, after forward.
    void backward(const real* angles, real* g_angles) const {
        for (int64_t i = squarings - 1; i >= 0; i--) {
            std::memset(more, 0, size * sizeof(double));
            multiply<false, true>(g, square(i), more, 1.0);
            multiply<true, false>(square(i), g, more, 1.0);
            std::memcpy(g, more, size * sizeof(double));
        }
        std::memset(g_A, 0, size * sizeof(double));
        for (int64_t k = 1; k <= TERMS; k++) {
            multiply<false, true>(g, P + k * size, g_A, 1.0 / double(k));
            std::memset(more, 0, size * sizeof(double));
            multiply<true, false>(A, g, more, 1.0 / double(k));
            std::memcpy(g, more, size * sizeof(double));
        }
        const double scale = std::ldexp(1.0, -int(squarings));
        each_angle([&](double* up, double* down, int64_t k) {
            const double *g_up = g_A + (up - A), *g_down = g_A + (down - A);
            for (int64_t e = 0; e < E; e++) {
                const bool within = std::fabs(angles[k * E + e]) <= real(ANGLE_LIMIT);
                g_angles[k * E + e] = within ? real((g_down[e] - g_up[e]) * scale) : real(0);
            }
        });
    }

   private:
    double* square(int64_t i) const { return i ? X + (i - 1) * size : P; }

    template <typename Function>
    void each_angle(Function function) const {
        int64_t k = 0;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = i + 1; j < m; j++) function(A + (i * m + j) * E, A + (j * m + i) * E, k++);
    }

    void identity(double* out) const {
        std::memset(out, 0, size * sizeof(double));
        for (int64_t i = 0; i < m; i++)
            for (int64_t e = 0; e < E; e++) out[i * (m + 1) * E + e] = 1;
    }

    // out += scale · x y, either of them transposed.
    template <bool x_turned, bool y_turned>
    void multiply(const double* x, const double* y, double* out, double scale) const {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < m; j++) {
                double* __restrict sum = out + (i * m + j) * E;
                for (int64_t k = 0; k < m; k++) {
                    const double* __restrict left = x + (x_turned ? k * m + i : i * m + k) * E;
                    const double* __restrict right = y + (y_turned ? j * m + k : k * m + j) * E;
#pragma omp simd
                    for (int64_t e = 0; e < E; e++) sum[e] += scale * left[e] * right[e];
                }
            }
    }
};

}  // namespace TARGET
