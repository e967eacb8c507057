// A layer of a model, with its tensors and where their gradients go; and vectors made of length 1.
//
// Glossary                                                    shape, real numbers
//   z        the layer's input                                (T, m, D)
//   theta    W_θ z before its tanh, or the free angle         (T, 1 or D)
//   delta    δ = W z + b, from which α (keep) and γ (enter) come   (T, 1 or D)
//   a, b     transition and entrance, complex numbers:
//              rotate the input   a = α           b = γ e^{iθ}
//              rotate the state   a = α e^{iθ}    b = γ
//   w        the entering vector: z, or z / (|z| + ε) where a switch replaces the state
//   c        the coupling from the layer below, or 0          (T, m, D)
//   h        the state                                        (T, m, D)
//   skip, s  g and σ(g), the strength of the skip             (D)
//   start    h_0, where a sequence begins                     (m, D)
//
// Forward, for each step and channel:
//   h_t = bound(a_t h_{t-1} + b_t w_t + c_t, 2^60)
//   p_t = SiLU(h_t) + s z_t                                   SiLU on each plane, or the identity
//   out = p_t / (sqrt(|p_t|² + 1e-30) + ε)                    or bound(p_t, 2^20) without the norm
// where bound(x, L) = x / max(1, |x| / L) keeps the phase.
//
// Adjoint. Gradients are complex numbers too: g = ∂L/∂Re + i ∂L/∂Im, so a product y = k x passes conj(k) g_y to x and
// conj(x) g_y to k. With m = sqrt(|p|² + 1e-30), n = m + ε and ⟨x, y⟩ = Re(conj(x) y):
//   norm       g_p = g_out / n − p ⟨p, g_out⟩ / (m n²)
//   bound      g_x = (g_y − ŷ ⟨ŷ, g_y⟩) / (|x| / L) where |x| > L, ŷ = y / L: the tangential part
//   skip       g_g += s (1 − s) ⟨z, g_p⟩      g_z += s g_p
//   SiLU       λ_t = SiLU'(h_t) g_p + conj(a_{t+1}) μ_{t+1}   on each plane
//   state      μ_t = bound(λ_t through the bound of h_t, 2^30)
//   recur      g_a = conj(h_{t-1}) μ_t        g_b = conj(w_t) μ_t        g_c = μ_t
//   entrance   g_w = conj(b_t) μ_t            through w = z / |z| as through the norm
//   gates      g_α = ⟨∂a/∂α, g_a⟩ and likewise for γ, θ in a and b; a gate shared by the channels sums
//   projection g_z += Wᵀ g_δ                  g_W += g_δ zᵀ               and likewise for θ
// and at the end g_{h_0} = conj(a_1) μ_1.
#pragma once

#include "plan.hpp"
#include "products.hpp"

namespace TARGET {

constexpr double OUTPUT_LIMIT = 0x1p20, EPSILON = 1e-8, TINY = 1e-30;

template <typename real>
struct Level {
    const Layer& layer;
    const Extents size;
    const real *angle_weight, *angle_bias, *gate_weight, *gate_bias, *recall, *parts, *norm_weight, *norm_bias;
    const real *coupling_u, *coupling_v, *keys_weight, *keys_bias;
    const real *start, *strength, *point;         // prepared: h_0 and the point as they are used, σ(g)
    const real* origin;                           // prepared: h_0, also where a piece starts elsewhere
    const real *maps, *columns;                   // prepared: softmax of a router's logits, by sources and by targets
    const int64_t* targets;                       // prepared: of each channel in each map; null where maps are soft
    int64_t planes = 2;                           // of a router's states; all others are 0
    real *g_angle_weight, *g_angle_bias, *g_gate_weight, *g_gate_bias, *g_recall, *g_norm_weight, *g_norm_bias;
    real *g_coupling_u, *g_coupling_v, *g_keys_weight, *g_keys_bias;
    real *g_start, *g_skip, *g_point, *g_maps;    // of what is prepared

    // `gradients`: of all tensors.
    INLINE Level(const Plan& plan, const Prepared<real>& prepared, int64_t number, real* gradients)
        : layer(plan.model->layers[number]), size(*plan.model, layer) {
        const auto value = [&](int64_t i) {
            return i < 0 ? nullptr : static_cast<const real*>(plan.model->weights[i].value);
        };
        const auto gradient = [&](int64_t i) { return i < 0 ? nullptr : gradients + plan.offsets[i]; };
        angle_weight = value(layer.angle_weight), g_angle_weight = gradient(layer.angle_weight);
        angle_bias = value(layer.angle_bias), g_angle_bias = gradient(layer.angle_bias);
        gate_weight = value(layer.gate_weight), g_gate_weight = gradient(layer.gate_weight);
        gate_bias = value(layer.gate_bias), g_gate_bias = gradient(layer.gate_bias);
        recall = value(layer.recall), g_recall = gradient(layer.recall);
        parts = value(layer.parts);
        norm_weight = value(layer.norm_weight), g_norm_weight = gradient(layer.norm_weight);
        norm_bias = value(layer.norm_bias), g_norm_bias = gradient(layer.norm_bias);
        coupling_u = value(layer.coupling_u), g_coupling_u = gradient(layer.coupling_u);
        coupling_v = value(layer.coupling_v), g_coupling_v = gradient(layer.coupling_v);
        keys_weight = value(layer.keys_weight), g_keys_weight = gradient(layer.keys_weight);
        keys_bias = value(layer.keys_bias), g_keys_bias = gradient(layer.keys_bias);
        origin = start = prepared.start + number * size.state, g_start = gradient(layer.start);
        strength = prepared.strength + number * size.D, g_skip = gradient(layer.skip);
        point = layer.point < 0 ? nullptr : prepared.point + number * size.state, g_point = gradient(layer.point);
        maps = prepared.maps, columns = prepared.columns, g_maps = gradient(layer.maps);
        targets = plan.model->temperature ? nullptr : prepared.targets;
        if (!layer.choices) return;
        for (const Layer* below = plan.model->layers; below < &layer; below++) {
            if (targets) targets += below->choices * size.D;
            maps += below->choices * size.D * below->places;
            columns += below->choices * size.D * below->places;
        }
        bool real_start = !plan.model->state && !plan.model->weights[layer.start].trained;
        for (int64_t d = size.D; real_start && d < size.state; d++) real_start = start[d] == 0;
        planes = real_start ? 1 : 2;
    }

    // Moves the phases of states, or of what replaces them, to whole multiples of 2π/k from h_0, so they cannot drift.
    void snap(real* x) const {
        const real *re = origin, *im = origin + size.D;
        for (int64_t d = 0; parts && d < size.D; d++) {
            if (!(parts[d] > 0)) continue;
            const double part = 2 * M_PI / parts[d], a = re[d], b = im[d], c = x[d], e = x[size.D + d];
            const double phase = part * std::nearbyint(std::atan2(a * e - b * c, a * c + b * e) / part);
            const double cosine = std::cos(phase), sine = std::sin(phase);
            x[d] = real(cosine * a - sine * b), x[size.D + d] = real(sine * a + cosine * b);
        }
    }

    INLINE bool replaces() const { return layer.decay == Decay::switch_; }
};

// The orders that inner loops are compiled for.
template <typename Function>
INLINE void with_order(int64_t m, Function function) {
    switch (m) {
        case 2: return function(Order<2>{});
        case 3: return function(Order<3>{});
        case 4: return function(Order<4>{});
        case 5: return function(Order<5>{});
        default: return function(Order<0>{m});
    }
}

// Returns true if no vector of m of these numbers can be longer than the limit.
template <typename real>
bool all_below(const real* x, int64_t n, real limit, int64_t m) {
    using Side = Wide<real>;
    typename Side::vector even{}, odd{};  // the largest squares
    real most = 0;
    int64_t i = 0;
    for (; i + 2 * Side::lanes <= n; i += 2 * Side::lanes) {
        const auto first = Side::load(x + i) * Side::load(x + i);
        const auto second = Side::load(x + i + Side::lanes) * Side::load(x + i + Side::lanes);
        Side::raise(even, first), Side::raise(odd, second);
    }
    for (; i < n; i++) most = x[i] * x[i] > most ? x[i] * x[i] : most;
    for (int64_t lane = 0; lane < Side::lanes; lane++) {
        most = even[lane] > most ? even[lane] : most;
        most = odd[lane] > most ? odd[lane] : most;
    }
    return most <= limit * limit / real(m);
}

// The gradient from later steps, if there are any.
template <typename real>
INLINE void begin_carry(const real* later, real* carry, int64_t state) {
    if (later) std::memcpy(carry, later, state * sizeof(real));
    else std::memset(carry, 0, state * sizeof(real));
}

template <typename real>
INLINE void add(const real* __restrict more, real* __restrict sum, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) sum[i] += more[i];
}

// out = x / (sqrt(|x|² + 1e-30) + ε) in every channel of m planes.
template <typename real>
void to_unit(const real* __restrict x, real* __restrict out, int64_t planes, int64_t D, real epsilon) {
    with_order(planes, [&](auto m) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            real sum = real(TINY);
            m.each([&](int64_t i) { sum += x[i * D + d] * x[i * D + d]; });
            const real scale = 1 / (std::sqrt(sum) + epsilon);
            m.each([&](int64_t i) { out[i * D + d] = x[i * D + d] * scale; });
        }
    });
}

// From g_out to g_x = g / n − x ⟨x, g⟩ / (l n²) in place, with l = sqrt(|x|² + 1e-30) and n = l + ε.
template <typename real>
void to_unit_adjoint(const real* __restrict x, real* __restrict g, int64_t planes, int64_t D, real epsilon) {
    with_order(planes, [&](auto m) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            real sum = real(TINY), radial = 0;
            m.each([&](int64_t i) { sum += x[i * D + d] * x[i * D + d], radial += x[i * D + d] * g[i * D + d]; });
            const real length = std::sqrt(sum), over = 1 / (length + epsilon);
            radial = radial * over * over / length;  // in this order: 1 / (l n²) alone may be infinite
            m.each([&](int64_t i) { g[i * D + d] = g[i * D + d] * over - x[i * D + d] * radial; });
        }
    });
}

}  // namespace TARGET
