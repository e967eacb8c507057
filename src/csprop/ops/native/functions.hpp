// Functions of one real variable. A loop over channels that calls them becomes vector
// instructions: no branches, no calls, no table. Each is right to a few units in the
// last place (tanh: of 1), has the right limit at ±inf, and gives NaN for NaN.
//
// Rounding to a whole number is the addition of 1.5·2^m, m the bits of a mantissa: the sum has no room for
// a fraction, and its last bits are the number.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "compilers.hpp"

namespace TARGET {

template <typename real>
struct Format;

template <>
struct Format<float> {
    using integer = int32_t;
    using bits = uint32_t;
    static constexpr int mantissa = 23, bias = 127;
    static constexpr float round = 12582912.0f;                // 1.5·2^23
    static constexpr float least = -88.0f, most = 89.0f;       // beyond these exp is 0 and inf; it is inf from 88.4 on
    static constexpr int exp_terms = 7, sin_terms = 6, log_terms = 8;
    static constexpr float ln2[2] = {0.6923828125f, 7.643680437467992e-4f};
    // π/2 in three parts, the first two short: their product with |n| < 2^13 is exact.
    static constexpr float half_pi[3] = {1.5703125f, 4.837512969970703e-4f, 7.549790126404332e-8f};
};

template <>
struct Format<double> {
    using integer = int64_t;
    using bits = uint64_t;
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr double round = 6755399441055744.0;        // 1.5·2^52
    static constexpr double least = -709.0, most = 710.0;
    static constexpr int exp_terms = 14, sin_terms = 10, log_terms = 17;
    static constexpr double ln2[2] = {0x1.62e42fefa3p-1, 0x1.3de6af278ece6p-42};
    static constexpr double half_pi[3] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
};

constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

// Σ (sign·x)^j / (first + step·j)! over j = 0 … terms − 1, the Taylor series of exp, cos and sin.
template <int first, int step, int sign, int terms, typename real>
INLINE real series(real x) {
    constexpr real leading = real(1.0 / factorial(first));
    if constexpr (terms == 1) return leading;
    else return leading + sign * x * series<first + step, step, sign, terms - 1>(x);
}

// Σ x^j / (odd + 2j), with x = s²: s times it is the series of artanh.
template <int odd, int terms, typename real>
INLINE real odd_series(real x) {
    constexpr real leading = real(1.0 / odd);
    if constexpr (terms == 1) return leading;
    else return leading + x * odd_series<odd + 2, terms - 1>(x);
}

template <typename real>
INLINE real rounded(real x) { return (x + Format<real>::round) - Format<real>::round; }

// The last bits of a whole number of modest size.
template <typename real>
INLINE typename Format<real>::integer whole(real n) {
    typename Format<real>::integer bits;
    real shifted = n + Format<real>::round;
    std::memcpy(&bits, &shifted, sizeof bits);
    return bits;
}

// 2^n for a whole n; the exponent's least and largest values stand for 0 and infinity.
template <typename real>
INLINE real power_of_two(real n) {
    using F = Format<real>;
    auto bits = typename F::bits(whole(n) + F::bias) << F::mantissa;
    real power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

// e^x = 2^n e^r with |r| ≤ ln 2 / 2; 0 in place of the numbers below the normal ones.
template <typename real>
INLINE real exponential(real x) {
    using F = Format<real>;
    x = x < F::least ? F::least : x;
    x = x > F::most ? F::most : x;
    const real n = rounded(x * real(1.4426950408889634));
    const real r = (x - n * F::ln2[0]) - n * F::ln2[1];
    return series<0, 1, 1, F::exp_terms>(r) * power_of_two(n);
}

template <typename real>
INLINE real sigmoid(real x) { return 1 / (1 + exponential(-x)); }

// σ(x) and σ(−x), the smaller one without cancellation.
template <typename real>
INLINE void sigmoid_both(real x, real& keep, real& replace) {
    const real e = exponential(x > 0 ? -x : x), large = 1 / (1 + e), small = e * large;
    keep = x > 0 ? large : small;
    replace = x > 0 ? small : large;
}

// log(1 + y) for 0 ≤ y ≤ 1, as 2 artanh(y / (2 + y)).
template <typename real>
INLINE real log_1p(real y) {
    real s = y / (2 + y);
    return 2 * s * odd_series<1, Format<real>::log_terms>(s * s);
}

// log(1 + e^x); beyond 20 it is x, as in torch.
template <typename real>
INLINE real softplus(real x) {
    real soft = (x > 0 ? x : real(0)) + log_1p(exponential(x > 0 ? -x : x));
    return x > 20 ? x : soft;
}

template <typename real>
INLINE real hyperbolic_tangent(real x) {
    real e = exponential(x > 0 ? -2 * x : 2 * x);
    real size = (1 - e) / (1 + e);
    return x < 0 ? -size : size;
}

// cos x and sin x for |x| < 2^13, by the quarter turn that x lies in.
template <typename real>
INLINE void cos_sin(real x, real& cosine, real& sine) {
    using F = Format<real>;
    real n = rounded(x * real(0.6366197723675814));
    real r = ((x - n * F::half_pi[0]) - n * F::half_pi[1]) - n * F::half_pi[2];
    real c = series<0, 2, -1, F::sin_terms>(r * r);
    real s = r * series<1, 2, -1, F::sin_terms>(r * r);
    auto quarter = whole(n);
    real x_axis = quarter & 1 ? s : c, y_axis = quarter & 1 ? c : s;
    cosine = (quarter + 1) & 2 ? -x_axis : x_axis;
    sine = quarter & 2 ? -y_axis : y_axis;
}

}  // namespace TARGET
