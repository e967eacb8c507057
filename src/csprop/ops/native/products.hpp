// Products of small matrices, whose rows lie one after the other or a stride apart.
#pragma once

#include "planes.hpp"

namespace TARGET {

#if !defined(__GNUC__)
// A vector, for compilers without vector types.
template <typename real, int64_t lanes>
struct Lanes {
    real each[lanes];

    INLINE real& operator[](int64_t i) { return each[i]; }
    INLINE Lanes& operator+=(const Lanes& y) { return *this = *this + y; }
    INLINE friend Lanes operator+(Lanes x, const Lanes& y) {
        for (int64_t i = 0; i < lanes; i++) x.each[i] += y.each[i];
        return x;
    }
    INLINE friend Lanes operator-(Lanes x, const Lanes& y) {
        for (int64_t i = 0; i < lanes; i++) x.each[i] -= y.each[i];
        return x;
    }
    INLINE friend Lanes operator*(Lanes x, const Lanes& y) {
        for (int64_t i = 0; i < lanes; i++) x.each[i] *= y.each[i];
        return x;
    }
    INLINE friend Lanes operator*(real a, Lanes x) {
        for (int64_t i = 0; i < lanes; i++) x.each[i] *= a;
        return x;
    }
};
#endif

// Several numbers side by side, at any address. Plain loops do not keep these sums in registers.
template <typename real>
struct Wide {
    static constexpr int64_t lanes = 32 / sizeof(real);
#if defined(__GNUC__)
    typedef real vector __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));
    typedef real half __attribute__((vector_size(16)));
#else
    using vector = Lanes<real, lanes>;
    using half = Lanes<real, lanes / 2>;
#endif

    static INLINE const vector& load(const real* from) { return *reinterpret_cast<const vector*>(from); }
    static INLINE vector& at(real* to) { return *reinterpret_cast<vector*>(to); }

    // The larger one of each pair.
    static INLINE void raise(vector& most, const vector& each) {
#if defined(__GNUC__)
        most = each > most ? each : most;
#else
        for (int64_t i = 0; i < lanes; i++) most.each[i] = each.each[i] > most.each[i] ? each.each[i] : most.each[i];
#endif
    }

    static INLINE real sum(const vector& each) {
        half low, high;
        std::memcpy(&low, &each, 16), std::memcpy(&high, reinterpret_cast<const char*>(&each) + 16, 16);
        low += high;
        if constexpr (lanes == 8) return (low[0] + low[2]) + (low[1] + low[3]);
        else return low[0] + low[1];
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

// y = W x + b for four x and `rows` rows of W, all sums at once, so no sum waits for its own last addition.
template <int rows, typename real>
INLINE void project_tile(const real* w, const real* bias, const real* x, real* y, int64_t inputs, int64_t stride,
                         int64_t across, int64_t along) {
    using Side = Wide<real>;
    typename Side::vector sums[rows][4] = {};
    const auto more = [&](int64_t i, int64_t skip) {
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) {
            typename Side::vector each = Side::load(w + r * inputs + i);
            for (int64_t k = 0; k < skip; k++) each[k] = 0;
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) sums[r][k] += each * Side::load(x + k * stride + i);
        }
    };
    int64_t i = 0;
    for (; i + Side::lanes <= inputs; i += Side::lanes) more(i, 0);
    if (i < inputs && inputs >= Side::lanes) {  // the last numbers, together with some that are already counted
        more(inputs - Side::lanes, i - (inputs - Side::lanes));
        i = inputs;
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            real sum = Side::sum(sums[r][k]);
            for (int64_t j = i; j < inputs; j++) sum += w[r * inputs + j] * x[k * stride + j];
            y[k * across + r * along] = sum + (bias ? bias[r] : real(0));
        }
}

// y = W x + b for several x; `across` and `along` are the strides of y, from x to x and from output to output.
template <typename real>
void project(const real* weight, const real* bias, const real* x, real* y, int64_t count, int64_t inputs,
             int64_t outputs, int64_t stride, int64_t across, int64_t along) {
    int64_t e = 0;
    for (; e + 4 <= count; e += 4, x += 4 * stride, y += 4 * across) {
        const real *w = weight, *b = bias;
        int64_t o = 0;
        for (; o + 2 <= outputs; o += 2, w += 2 * inputs, b = b ? b + 2 : b)
            project_tile<2>(w, b, x, y + o * along, inputs, stride, across, along);
        if (o < outputs) project_tile<1>(w, b, x, y + o * along, inputs, stride, across, along);
    }
    for (; e < count; e++, x += stride, y += across)
        for (int64_t o = 0; o < outputs; o++)
            y[o * along] = dot(weight + o * inputs, x, inputs) + (bias ? bias[o] : real(0));
}

// y_r += Σ_k c_rk x_k for `rows` rows of `vectors` times the lanes of numbers, c_rk at c[r · across + k · along];
// without `add` the sums take the place of y. One row has two sums, of even and of odd k, which do not wait for each other.
template <int rows, int vectors, bool add, typename real>
INLINE void add_tile(real* y, int64_t y_stride, const real* c, int64_t across, int64_t along, const real* x,
                     int64_t count, int64_t stride) {
    using Side = Wide<real>;
    constexpr int parts = rows == 1 ? 2 : 1;
    typename Side::vector sums[rows * parts][vectors] = {};
#pragma GCC unroll 2
    for (int r = 0; add && r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sums[r][v] = Side::load(y + r * y_stride + v * Side::lanes);
    const auto more = [&](int part) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const typename Side::vector each = Side::load(x + v * Side::lanes);
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) sums[r + part][v] += c[r * across] * each;
        }
        x += stride, c += along;
    };
    int64_t k = 0;
    for (; k + parts <= count; k += parts) {
        more(0);
        if (parts == 2) more(1);
    }
    if (k < count) more(0);
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            Side::at(y + r * y_stride + v * Side::lanes) = parts == 2 ? sums[0][v] + sums[1][v] : sums[r][v];
}

// The same for vectors of n numbers.
template <int rows, bool add, typename real>
INLINE void add_rows(real* y, int64_t y_stride, const real* c, int64_t across, int64_t along, const real* x,
                     int64_t count, int64_t x_stride, int64_t n) {
    constexpr int64_t lanes = Wide<real>::lanes;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes)
        add_tile<rows, 4, add>(y + i, y_stride, c, across, along, x + i, count, x_stride);
    for (; i + lanes <= n; i += lanes)
        add_tile<rows, 1, add>(y + i, y_stride, c, across, along, x + i, count, x_stride);
    if (i == n) return;
    if (n >= lanes) {  // the last numbers, with others that are done already
        real sums[rows * lanes];
        add_tile<rows, 1, false>(sums, lanes, c, across, along, x + n - lanes, count, x_stride);
        for (int r = 0; r < rows; r++)
            for (int64_t k = i; k < n; k++) {
                const real sum = sums[r * lanes + k - (n - lanes)];
                y[r * y_stride + k] = add ? y[r * y_stride + k] + sum : sum;
            }
        return;
    }
    for (int r = 0; r < rows; r++)
        for (int64_t k = 0; k < n; k++) {
            real sum = add ? y[r * y_stride + k] : real(0);
            for (int64_t j = 0; j < count; j++) sum += c[r * across + j * along] * x[j * x_stride + k];
            y[r * y_stride + k] = sum;
        }
}

// y_r += Σ_k c_rk x_k, where c_rk stands at c[r · across + k · along]; vectors have n numbers. Works on two rows at
// once and reads each x once for both.
template <bool add = true, typename real>
void add_products(real* y, int64_t rows, int64_t y_stride, const real* c, int64_t across, int64_t along, const real* x,
                  int64_t count, int64_t x_stride, int64_t n) {
    for (; rows >= 2; rows -= 2, y += 2 * y_stride, c += 2 * across)
        add_rows<2, add>(y, y_stride, c, across, along, x, count, x_stride, n);
    if (rows) add_rows<1, add>(y, y_stride, c, across, along, x, count, x_stride, n);
}

// The adjoint of project: adds to the gradients of W and b, and adds to or sets the gradient of x.
template <bool add = true, typename real>
void project_adjoint(const real* weight, real* g_weight, real* g_bias, const real* x, const real* g_y, real* g_x,
                     int64_t count, int64_t inputs, int64_t outputs, int64_t stride, int64_t across, int64_t along) {
    add_products<add>(g_x, count, stride, g_y, across, along, weight, outputs, inputs, inputs);
    add_products(g_weight, outputs, inputs, g_y, along, across, x, count, stride, inputs);
    for (int64_t o = 0; g_bias && o < outputs; o++)
        for (int64_t e = 0; e < count; e++) g_bias[o] += g_y[e * across + o * along];
}

}  // namespace TARGET
