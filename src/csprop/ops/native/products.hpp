// Products of small matrices, rows of which lie one after the other or a stride apart.
#pragma once

#include "planes.hpp"

namespace TARGET {

// Several numbers side by side, at any address. Sums that stay in registers are more than a loop can be told.
template <typename real>
struct Wide {
    typedef real vector __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));
    static constexpr int64_t lanes = 32 / sizeof(real);

    static INLINE const vector& load(const real* from) { return *reinterpret_cast<const vector*>(from); }
    static INLINE vector& at(real* to) { return *reinterpret_cast<vector*>(to); }

    static INLINE real sum(const vector& each) {
        real total = 0;
#pragma GCC unroll 4
        for (int64_t i = 0; i < lanes / 2; i++) total += each[i] + each[i + lanes / 2];
        return total;
    }
};

// out = a x, and the sum of x y.
template <typename real>
real scale_and_dot(real a, const real* x, const real* y, real* out, int64_t n) {
    using Side = Wide<real>;
    typename Side::vector sums{};
    int64_t i = 0;
    for (; i + Side::lanes <= n; i += Side::lanes) {
        const typename Side::vector each = Side::load(x + i);
        sums += each * Side::load(y + i);
        Side::at(out + i) = a * each;
    }
    real sum = Side::sum(sums);
    for (; i < n; i++) sum += x[i] * y[i], out[i] = a * x[i];
    return sum;
}

// y = W x + b for several x; `across` and `along` are the strides of y, from x to x and from output to output.
template <typename real>
void project(const real* weight, const real* bias, const real* x, real* y, int64_t count, int64_t inputs,
             int64_t outputs, int64_t stride, int64_t across, int64_t along) {
    using Side = Wide<real>;
    for (int64_t o = 0; o < outputs; o++) {
        const real *w = weight + o * inputs, shift = bias ? bias[o] : real(0);
        real* to = y + o * along;
        int64_t e = 0;
        for (; e + 4 <= count; e += 4) {  // four at once, so that a sum need not wait for itself
            const real *x0 = x + e * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
            typename Side::vector s0{}, s1{}, s2{}, s3{};
            int64_t i = 0;
            for (; i + Side::lanes <= inputs; i += Side::lanes) {
                const auto& each = Side::load(w + i);
                s0 += each * Side::load(x0 + i), s1 += each * Side::load(x1 + i);
                s2 += each * Side::load(x2 + i), s3 += each * Side::load(x3 + i);
            }
            if (i < inputs && inputs >= Side::lanes) {  // the last numbers, with others that are counted already
                const int64_t last = inputs - Side::lanes;
                typename Side::vector each = Side::load(w + last);
                for (int64_t k = 0; k < i - last; k++) each[k] = 0;
                s0 += each * Side::load(x0 + last), s1 += each * Side::load(x1 + last);
                s2 += each * Side::load(x2 + last), s3 += each * Side::load(x3 + last);
                i = inputs;
            }
            real sums[] = {Side::sum(s0), Side::sum(s1), Side::sum(s2), Side::sum(s3)};
            for (int64_t k = 0; k < 4; k++) {
                for (int64_t j = i; j < inputs; j++) sums[k] += w[j] * x0[k * stride + j];
                to[(e + k) * across] = sums[k] + shift;
            }
        }
        for (; e < count; e++) to[e * across] = dot(w, x + e * stride, inputs) + shift;
    }
}

// y += Σ_k c_k x_k, where c_k stands at c[k · along]; `vectors` times the lanes of numbers.
template <int vectors, typename real>
INLINE void add_tile(real* y, const real* c, int64_t along, const real* x, int64_t count, int64_t stride) {
    using Side = Wide<real>;
    typename Side::vector even[vectors], odd[vectors];  // two sums, so that one need not wait for itself
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) even[v] = Side::load(y + v * Side::lanes), odd[v] = typename Side::vector{};
    int64_t k = 0;
    for (; k + 2 <= count; k += 2) {
        const real c0 = c[k * along], c1 = c[(k + 1) * along], *x0 = x + k * stride, *x1 = x0 + stride;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            even[v] += c0 * Side::load(x0 + v * Side::lanes);
            odd[v] += c1 * Side::load(x1 + v * Side::lanes);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        if (k < count) even[v] += c[k * along] * Side::load(x + k * stride + v * Side::lanes);
        Side::at(y + v * Side::lanes) = even[v] + odd[v];
    }
}

// y_r += Σ_k c_rk x_k, where c_rk stands at c[r · across + k · along]; vectors have n numbers.
template <typename real>
void add_products(real* y, int64_t rows, int64_t y_stride, const real* c, int64_t across, int64_t along, const real* x,
                  int64_t count, int64_t x_stride, int64_t n) {
    constexpr int64_t lanes = Wide<real>::lanes;
    for (int64_t r = 0; r < rows; r++, y += y_stride, c += across) {
        int64_t i = 0;
        for (; i + 4 * lanes <= n; i += 4 * lanes) add_tile<4>(y + i, c, along, x + i, count, x_stride);
        for (; i + lanes <= n; i += lanes) add_tile<1>(y + i, c, along, x + i, count, x_stride);
        if (i < n && n >= lanes) {  // the last numbers, with others that are done already
            real sums[lanes] = {};
            add_tile<1>(sums, c, along, x + n - lanes, count, x_stride);
            for (; i < n; i++) y[i] += sums[i - (n - lanes)];
        }
        for (; i < n; i++)
            for (int64_t k = 0; k < count; k++) y[i] += c[k * along] * x[k * x_stride + i];
    }
}

// The adjoint of project: adds to the gradients of W, b and x.
template <typename real>
void project_adjoint(const real* weight, real* g_weight, real* g_bias, const real* x, const real* g_y, real* g_x,
                     int64_t count, int64_t inputs, int64_t outputs, int64_t stride, int64_t across, int64_t along) {
    add_products(g_x, count, stride, g_y, across, along, weight, outputs, inputs, inputs);
    add_products(g_weight, outputs, inputs, g_y, along, across, x, count, stride, inputs);
    for (int64_t o = 0; g_bias && o < outputs; o++)
        for (int64_t e = 0; e < count; e++) g_bias[o] += g_y[e * across + o * along];
}

}  // namespace TARGET
