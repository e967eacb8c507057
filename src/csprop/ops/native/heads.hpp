// The recurrences of a Tracker's heads, and their adjoints. N heads of a kind lie side by side, in lanes.
//
// Turns: R reflections a step,        v = u / |u|,  H ← H − 2 v (vᵀ H)                H_0 = I at a reset
// Adjoint, from the last reflection to the first, with λ the gradient of H after it, and H before it, which the
// same reflection gives back:
//   g_v = −2 (λ Hᵀ v + H λᵀ v)      λ ← λ − 2 v (vᵀ λ)      g_u = (g_v − v ⟨v, g_v⟩) / |u|
//
// Places: A = softmax of the logits over the targets,  y = A h,  h_t = y² / Σ y²       h = (1, 0, …) at a reset
// Adjoint, with λ the gradient of h_t:
//   g_y = 2 y (λ − ⟨λ, h_t⟩) / Σ y²      g_A = g_y hᵀ      λ ← Aᵀ g_y
#pragma once

#include "layout.hpp"
#include "planes.hpp"

namespace TARGET {

#define LANES _Pragma("omp simd") for (int l = 0; l < W; l++)

template <int M, int W, typename real>
struct TurnsOf {
    const Heads& work;
    int64_t lane;

    const real* in(const void* base, int64_t row, int64_t index) const {
        return at<real>(base, (row * work.reflections * M + index) * work.width + lane);
    }
    // Returns 1 / |u|, and sets v.
    static void unit(const real* u, int64_t N, real (&v)[M][W], real (&scale)[W]) {
        LANES scale[l] = real(1e-20);
        for (int a = 0; a < M; a++) LANES scale[l] += u[a * N + l] * u[a * N + l];
        LANES scale[l] = 1 / std::sqrt(scale[l]);
        for (int a = 0; a < M; a++) LANES v[a][l] = u[a * N + l] * scale[l];
    }
    static void copy(const real* from, int64_t N, real (&to)[M][M][W]) {
        for (int a = 0; a < M * M; a++) LANES to[a / M][a % M][l] = from[a * N + l];
    }
    void forward(int64_t row) const {
        const int64_t N = work.width, T = work.steps;
        real h[M][M][W], v[M][W], scale[W];
        copy(at<real>(work.h0, row * M * M * N + lane), N, h);
        for (int64_t i = row * T; i < (row + 1) * T; i++) {
            if (work.reset && work.reset[i])
                for (int a = 0; a < M * M; a++) LANES h[a / M][a % M][l] = a / M == a % M;
            for (int64_t k = 0; k < work.reflections; k++) {
                unit(in(work.inputs, i, k * M), N, v, scale);
                for (int c = 0; c < M; c++) {
                    real w[W] = {};
                    for (int a = 0; a < M; a++) LANES w[l] += v[a][l] * h[a][c][l];
                    for (int a = 0; a < M; a++) LANES h[a][c][l] -= 2 * v[a][l] * w[l];
                }
            }
            real* out = at<real>(work.h, i * M * M * N + lane);
            for (int a = 0; a < M * M; a++) LANES out[a * N + l] = h[a / M][a % M][l];
        }
    }
    void backward(int64_t row) const {
        const int64_t N = work.width, T = work.steps;
        real h[M][M][W], q[M][M][W] = {}, v[M][W], scale[W];
        for (int64_t i = (row + 1) * T - 1; i >= row * T; i--) {
            copy(at<real>(static_cast<const void*>(work.h), i * M * M * N + lane), N, h);
            const real* g = at<real>(work.g_h, i * M * M * N + lane);
            for (int a = 0; a < M * M; a++) LANES q[a / M][a % M][l] += g[a * N + l];
            for (int64_t k = work.reflections - 1; k >= 0; k--) {
                real x[M][W] = {}, y[M][W] = {}, g_v[M][W] = {}, along[W] = {};
                unit(in(work.inputs, i, k * M), N, v, scale);
                for (int c = 0; c < M; c++) {
                    for (int a = 0; a < M; a++) LANES x[c][l] += v[a][l] * h[a][c][l], y[c][l] += v[a][l] * q[a][c][l];
                    for (int a = 0; a < M; a++) LANES h[a][c][l] -= 2 * v[a][l] * x[c][l];
                }
                // The reflection back turned vᵀ H into −x.
                for (int a = 0; a < M; a++)
                    for (int c = 0; c < M; c++) LANES g_v[a][l] += 2 * (q[a][c][l] * x[c][l] - h[a][c][l] * y[c][l]);
                for (int a = 0; a < M; a++)
                    for (int c = 0; c < M; c++) LANES q[a][c][l] -= 2 * v[a][l] * y[c][l];
                for (int a = 0; a < M; a++) LANES along[l] += v[a][l] * g_v[a][l];
                real* out = const_cast<real*>(in(work.g_inputs, i, k * M));
                for (int a = 0; a < M; a++) LANES out[a * N + l] = (g_v[a][l] - v[a][l] * along[l]) * scale[l];
            }
            if (work.reset && work.reset[i]) std::memset(q, 0, sizeof q);
        }
        real* out = at<real>(work.g_h0, row * M * M * N + lane);
        for (int a = 0; a < M * M; a++) LANES out[a * N + l] = q[a / M][a % M][l];
    }
};

template <int P, int W, typename real>
struct PlacesOf {
    const Heads& work;
    int64_t lane;

    void forward(int64_t row) const {
        const int64_t N = work.width, T = work.steps;
        real h[P][W];
        const real* first = at<real>(work.h0, row * P * N + lane);
        for (int a = 0; a < P; a++) LANES h[a][l] = first[a * N + l];
        for (int64_t i = row * T; i < (row + 1) * T; i++) {
            if (work.reset && work.reset[i])
                for (int a = 0; a < P; a++) LANES h[a][l] = a == 0;
            const real* s = at<real>(work.inputs, i * P * P * N + lane);
            real* maps = at<real>(work.maps, i * P * P * N + lane);
            real y[P][W] = {}, norm[W] = {};
            for (int c = 0; c < P; c++) {
                real most[W], sum[W] = {};
                LANES most[l] = s[c * N + l];
                for (int a = 1; a < P; a++) LANES most[l] = std::max(most[l], s[(a * P + c) * N + l]);
                for (int a = 0; a < P; a++) {
                    real* A = maps + (a * P + c) * N;
                    LANES A[l] = exponential(s[(a * P + c) * N + l] - most[l]);
                    LANES sum[l] += A[l];
                }
                for (int a = 0; a < P; a++) {
                    real* A = maps + (a * P + c) * N;
                    LANES A[l] /= sum[l], y[a][l] += A[l] * h[c][l];
                }
            }
            real* out = at<real>(work.h, i * P * N + lane);
            for (int a = 0; a < P; a++) LANES norm[l] += y[a][l] * y[a][l];
            for (int a = 0; a < P; a++) LANES out[a * N + l] = h[a][l] = y[a][l] * y[a][l] / norm[l];
        }
    }
    void backward(int64_t row) const {
        const int64_t N = work.width, T = work.steps;
        real q[P][W] = {}, h[P][W], y[P][W], g_y[P][W];
        for (int64_t i = (row + 1) * T - 1; i >= row * T; i--) {
            const bool fresh = work.reset && work.reset[i];
            const real* before = at<real>(i > row * T ? work.h : work.h0, (i > row * T ? i - 1 : row) * P * N + lane);
            const real *now = at<real>(static_cast<const void*>(work.h), i * P * N + lane);
            const real *g = at<real>(work.g_h, i * P * N + lane);
            const real* maps = at<real>(static_cast<const void*>(work.maps), i * P * P * N + lane);
            real* out = at<real>(work.g_inputs, i * P * P * N + lane);
            real norm[W] = {}, along[W] = {};
            for (int a = 0; a < P; a++) LANES h[a][l] = fresh ? real(a == 0) : before[a * N + l];
            for (int a = 0; a < P; a++) {
                LANES y[a][l] = 0;
                for (int c = 0; c < P; c++) LANES y[a][l] += maps[(a * P + c) * N + l] * h[c][l];
                LANES q[a][l] += g[a * N + l], norm[l] += y[a][l] * y[a][l], along[l] += q[a][l] * now[a * N + l];
            }
            for (int a = 0; a < P; a++) LANES g_y[a][l] = 2 * y[a][l] * (q[a][l] - along[l]) / norm[l];
            for (int c = 0; c < P; c++) {
                real sum[W] = {};
                for (int a = 0; a < P; a++) LANES sum[l] += maps[(a * P + c) * N + l] * g_y[a][l];
                for (int a = 0; a < P; a++) {
                    const int64_t place = (a * P + c) * N;
                    LANES out[place + l] = maps[place + l] * h[c][l] * (g_y[a][l] - sum[l]);
                }
                LANES q[c][l] = fresh ? 0 : sum[l];
            }
        }
        real* out = at<real>(work.g_h0, row * P * N + lane);
        for (int a = 0; a < P; a++) LANES out[a * N + l] = q[a][l];
    }
};

#undef LANES

template <template <int, int, typename> class Head, int M, typename real>
void head_rows(const Heads& work, int64_t first, int64_t last) {
    const auto rows = [&](auto head) {
        for (int64_t row = first; row < last; row++) {
            if (work.g_h) head.backward(row);
            else head.forward(row);
        }
    };
    int64_t lane = 0;
    for (; lane + 8 <= work.width; lane += 8) rows(Head<M, 8, real>{work, lane});
    for (; lane + 4 <= work.width; lane += 4) rows(Head<M, 4, real>{work, lane});
    for (; lane < work.width; lane++) rows(Head<M, 1, real>{work, lane});
}

template <typename real>
void turns_either(const Heads& work, int64_t first, int64_t last) {
    if (work.size == 2) head_rows<TurnsOf, 2, real>(work, first, last);
    if (work.size == 3) head_rows<TurnsOf, 3, real>(work, first, last);
    if (work.size == 4) head_rows<TurnsOf, 4, real>(work, first, last);
    if (work.size == 5) head_rows<TurnsOf, 5, real>(work, first, last);
}

template <typename real>
void places_either(const Heads& work, int64_t first, int64_t last) {
    if (work.size == 2) head_rows<PlacesOf, 2, real>(work, first, last);
    if (work.size == 3) head_rows<PlacesOf, 3, real>(work, first, last);
    if (work.size == 4) head_rows<PlacesOf, 4, real>(work, first, last);
    if (work.size == 5) head_rows<PlacesOf, 5, real>(work, first, last);
    if (work.size == 6) head_rows<PlacesOf, 6, real>(work, first, last);
}

}  // namespace TARGET
