// Layers whose outputs are their states and a skip, out = h + s z, every channel turned by a complex number of its own,
// as the preset rotor has them: some channels at a time through all steps of a row, their state in registers.
//   forward    h_t = a_t h_{t-1} + u_t      out_t = h_t + s z_t
//   adjoint    g_z = s g_out      g_s += ⟨z, g_out⟩      μ_t = g_out + conj(a_{t+1}) μ_{t+1}
//              g_a = conj(h_{t-1}) μ_t      g_u = μ_t
// No bound is needed where this is used. Where entries are tokens, g_out is summed in place of g_z, as in finish.hpp.
#pragma once

#include "level.hpp"

namespace TARGET {

template <typename real>
bool is_rotor(const Level<real>& level) {
    const Layer& layer = level.layer;
    return level.size.planes == 2 && level.size.extent > 1 && !layer.places && layer.activation != Activation::boundary &&
           layer.activation != Activation::step && layer.norm != Norm::complex && !level.norm_weight && !level.recall;
}

// Numbers of some channels: of so many vectors side by side, or of one channel (0).
template <typename real, int vectors>
struct Numbers {
    using Side = Wide<real>;
    typename Side::vector each[vectors];

    static INLINE Numbers load(const real* from) {
        return made([&](auto& to, int v) { to = Side::load(from + v * Side::lanes); });
    }
    INLINE void store(real* to) const {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) Side::at(to + v * Side::lanes) = each[v];
    }
    INLINE Numbers operator+(const Numbers& y) const {
        return made([&](auto& to, int v) { to = each[v] + y.each[v]; });
    }
    INLINE Numbers operator-(const Numbers& y) const {
        return made([&](auto& to, int v) { to = each[v] - y.each[v]; });
    }
    INLINE Numbers operator*(const Numbers& y) const {
        return made([&](auto& to, int v) { to = each[v] * y.each[v]; });
    }

   private:
    template <typename Function>
    static INLINE Numbers made(Function function) {
        Numbers numbers;
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) function(numbers.each[v], v);
        return numbers;
    }
};

template <typename real>
struct Numbers<real, 0> {
    real only;
    static INLINE Numbers load(const real* from) { return {*from}; }
    INLINE void store(real* to) const { *to = only; }
    INLINE Numbers operator+(const Numbers& y) const { return {only + y.only}; }
    INLINE Numbers operator-(const Numbers& y) const { return {only - y.only}; }
    INLINE Numbers operator*(const Numbers& y) const { return {only * y.only}; }
};

// A complex number in each of some channels.
template <typename Some, typename real>
struct Complexes {
    Some re, im;

    static INLINE Complexes load(const real* from, int64_t D) { return {Some::load(from), Some::load(from + D)}; }
    INLINE void store(real* to, int64_t D) const { re.store(to), im.store(to + D); }
    INLINE Complexes operator+(const Complexes& y) const { return {re + y.re, im + y.im}; }
    // x y + these, and conj(x) y.
    INLINE Complexes plus(const Complexes& x, const Complexes& y) const {
        return {re + x.re * y.re - x.im * y.im, im + x.re * y.im + x.im * y.re};
    }
    INLINE Complexes conjugate_times(const Complexes& y) const {
        return {re * y.re + im * y.im, re * y.im - im * y.re};
    }
    INLINE Complexes scaled(const Some& by) const { return {re * by, im * by}; }
    INLINE Some inner(const Complexes& y) const { return re * y.re + im * y.im; }
};

// Calls with a kind of numbers and the first channel, until all channels are done.
template <typename real, typename Function>
INLINE void each_channels(int64_t D, Function function) {
    constexpr int64_t lanes = Wide<real>::lanes;
    int64_t d = 0;
    for (; d + 2 * lanes <= D; d += 2 * lanes) function(Numbers<real, 2>{}, d);
    for (; d + lanes <= D; d += lanes) function(Numbers<real, 1>{}, d);
    for (; d < D; d++) function(Numbers<real, 0>{}, d);
}

// All pointers and sizes are local here: a loop that stores numbers would read others again and again.
template <typename Kind, typename real>
void rotor_channels(const Level<real>& level, const Passage<real>& row, int64_t T, int64_t d) {
    using Some = Complexes<Kind, real>;
    const int64_t D = level.size.D, state = 2 * D;
    const Entries<real> entries = row.entries;
    const real *a = entries.a + d, *u = entries.u + d, *z = entries.z + d;
    real *to = row.h + d, *out = row.out + d;
    const Kind strength = Kind::load(level.strength + d);
    Some h = Some::load(level.start + d, D);
    for (int64_t t = 0; t < T; t++, to += state, out += state) {
        const int64_t e = entries[t] * state;
        h = Some::load(u + e, D).plus(Some::load(a + e, D), h);
        h.store(to, D);
        (h + Some::load(z + e, D).scaled(strength)).store(out, D);
    }
}

template <bool tokens, typename Kind, typename real>
void rotor_channels_adjoint(const Level<real>& level, const Passage<real>& row, real* g, const real* later,
                            real* skips, int64_t T, int64_t d) {
    using Some = Complexes<Kind, real>;
    const int64_t D = level.size.D, state = 2 * D;
    const Entries<real> entries = row.entries;
    const real *a = entries.a + d, *z = entries.z + d, *start = level.start + d;
    real *g_a = entries.g_a + d, *g_u = tokens ? entries.g_u + d : g + d, *g_z = entries.g_z + d;
    const real *h = row.h + (T - 1) * state + d, *g_out = g + (T - 1) * state + d;
    const Kind strength = Kind::load(level.strength + d);
    Kind by_skip{};
    Some carry{};
    if (later) carry = Some::load(later + d, D);
    for (int64_t t = T - 1; t >= 0; t--, h -= state, g_out -= state) {
        const int64_t e = entries[t] * state;
        const Some before = Some::load(t ? h - state : start, D), here = Some::load(g_out, D), mu = here + carry;
        const Some by_a = before.conjugate_times(mu);
        carry = Some::load(a + e, D).conjugate_times(mu);
        if (tokens) {
            (Some::load(g_a + e, D) + by_a).store(g_a + e, D);
            (Some::load(g_u + e, D) + mu).store(g_u + e, D);
            (Some::load(g_z + e, D) + here).store(g_z + e, D);
        } else {
            by_skip = by_skip + Some::load(z + e, D).inner(here);
            by_a.store(g_a + e, D);
            mu.store(g_u + e, D);
            here.scaled(strength).store(g_z + e, D);
        }
    }
    if (!tokens) (Kind::load(skips + d) + by_skip).store(skips + d);
    (Some::load(level.g_start + d, D) + carry).store(level.g_start + d, D);
}

template <typename real>
void rotor_row(const Level<real>& level, const Passage<real>& row, int64_t T) {
    each_channels<real>(level.size.D, [&](auto kind, int64_t d) {
        rotor_channels<decltype(kind)>(level, row, T, d);
    });
}

// From g, the gradients of the outputs, to the gradients of the entries, the skip and the start. Adds to the entries if
// they are tokens; otherwise g holds the gradients of u at the end.
template <bool tokens, typename real>
void rotor_row_adjoint(const Level<real>& level, const Passage<real>& row, real* g, const real* later, real* skips,
                       int64_t T) {
    each_channels<real>(level.size.D, [&](auto kind, int64_t d) {
        rotor_channels_adjoint<tokens, decltype(kind)>(level, row, g, later, skips, T, d);
    });
}

}  // namespace TARGET
