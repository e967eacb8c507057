// The recurrence of a router, h_t = P_t h_{t-1}: contents of places move to other places. Where
// columns have a single 1, a content goes to one target; else it is shared out, and the adjoint
//   λ_t = g_t + before_{t+1}      before_t = P_tᵀ λ_t, which after a reset goes to the start instead
// gathers what reaches each state. Places that hold nothing cost nothing.
#pragma once

#include "layout.hpp"
#include "transitions.hpp"

namespace TARGET {

template <typename real>
void route_move(const Route& route, int64_t i, const real* h, real* next) {
    const int64_t D = route.width, *targets = route.targets + route.choice[i] * D;
    for (int64_t plane = 0; plane < 2; plane++, h += D, next += D)
        for (int64_t d = 0; d < D; d++)
            if (h[d] != 0) next[targets[d]] += h[d];
}

template <typename real>
void route_share(const Route& route, int64_t i, const real* h, real* next) {
    const int64_t D = route.width, m = route.places;
    const real* maps = at<real>(route.maps, route.choice[i] * D * m);
    for (int64_t plane = 0; plane < 2; plane++)
        for (int64_t d = 0; d < D; d++) {
            const real content = h[plane * D + d];
            if (content == 0) continue;
            const real* __restrict row = maps + d * m;
            real* __restrict out = next + plane * D + d / m * m;
#pragma omp simd
            for (int64_t target = 0; target < m; target++) out[target] += content * row[target];
        }
}

template <typename real>
void route_forward_row(const Route& route, int64_t row) {
    const int64_t state = 2 * route.width;
    const real* h = at<real>(route.h0, row * state);
    for (int64_t i = row * route.steps; i < (row + 1) * route.steps; i++) {
        real* next = at<real>(route.h, i * state);
        std::memset(next, 0, state * sizeof(real));
        if (route.reset && route.reset[i]) h = at<real>(route.start, 0);
        if (route.targets) route_move(route, i, h, next);
        else route_share(route, i, h, next);
        h = next;
    }
}

template <typename real>
void route_backward_row(const Route& route, int64_t row) {
    const int64_t D = route.width, m = route.places, state = 2 * D, begin = row * route.steps;
    const real* carry = nullptr;
    for (int64_t i = begin + route.steps - 1; i >= begin; i--) {
        const real* __restrict g_h = at<real>(route.g_h, i * state);
        real* __restrict reaching = at<real>(route.reaching, i * state);
        for (int64_t d = 0; d < state; d++) reaching[d] = g_h[d] + (carry ? carry[d] : real(0));
        real* before = at<real>(route.before, i * state);
        const real* maps = at<real>(route.maps, route.choice[i] * D * m);
        for (int64_t d = 0; d < state; d++) {
            const int64_t channel = d % D;
            const real* __restrict weights = maps + channel * m;
            const real* __restrict from = reaching + d - channel + channel / m * m;
            real sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t target = 0; target < m; target++) sum += weights[target] * from[target];
            before[d] = sum;
        }
        carry = route.reset && route.reset[i] ? nullptr : before;
    }
}

template <typename real>
void route_either(const Route& route, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        if (route.g_h) route_backward_row<real>(route, row);
        else route_forward_row<real>(route, row);
    }
}

}  // namespace TARGET
