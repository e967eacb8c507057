// A layer of a model in training, with its tensors and where their gradients go; and vectors made of length 1.
#pragma once

#include "block.hpp"
#include "plan.hpp"
#include "products.hpp"

namespace TARGET {

template <typename real>
struct Level {
    const Layer& layer;
    const Extents size;
    const real *angle_weight, *angle_bias, *gate_weight, *gate_bias, *recall, *norm_weight, *norm_bias;
    const real *coupling_u, *coupling_v, *keys_weight, *keys_bias;
    const real *map_weight, *map_bias, *entrance_weight, *entrance_bias;
    const real* frame;                            // prepared: before the first step
    const real *start, *strength, *point;         // prepared: h_0 and the point as they are used, σ(g)
    const real *maps, *columns;                   // prepared: softmax of a router's logits, by sources and by targets
    const int64_t* targets;                       // prepared: of each channel in each map; null where maps are soft
    int64_t planes = 2;                           // of a router's states; all others are 0
    real *g_angle_weight, *g_angle_bias, *g_gate_weight, *g_gate_bias, *g_recall, *g_norm_weight, *g_norm_bias;
    real *g_coupling_u, *g_coupling_v, *g_keys_weight, *g_keys_bias;
    real *g_map_weight, *g_map_bias, *g_entrance_weight, *g_entrance_bias, *g_frame = nullptr;
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
        norm_weight = value(layer.norm_weight), g_norm_weight = gradient(layer.norm_weight);
        norm_bias = value(layer.norm_bias), g_norm_bias = gradient(layer.norm_bias);
        coupling_u = value(layer.coupling_u), g_coupling_u = gradient(layer.coupling_u);
        coupling_v = value(layer.coupling_v), g_coupling_v = gradient(layer.coupling_v);
        keys_weight = value(layer.keys_weight), g_keys_weight = gradient(layer.keys_weight);
        keys_bias = value(layer.keys_bias), g_keys_bias = gradient(layer.keys_bias);
        map_weight = value(layer.map_weight), g_map_weight = gradient(layer.map_weight);
        map_bias = value(layer.map_bias), g_map_bias = gradient(layer.map_bias);
        entrance_weight = value(layer.entrance_weight), g_entrance_weight = gradient(layer.entrance_weight);
        entrance_bias = value(layer.entrance_bias), g_entrance_bias = gradient(layer.entrance_bias);
        frame = prepared.frame;
        start = prepared.start + number * size.state, g_start = gradient(layer.start);
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
        bool real_start = layer.rotate != STATE && !plan.model->weights[layer.start].trained;
        for (int64_t d = size.D; real_start && d < size.state; d++) real_start = start[d] == 0;
        planes = real_start ? 1 : 2;
    }

    // What the norm adds to the squared modulus under the root, and to the root.
    INLINE real under() const { return layer.norm == ROOT ? real(EPSILON) : real(TINY); }
    INLINE real beside() const { return layer.norm == ROOT ? real(0) : real(EPSILON); }

    INLINE bool replaces() const { return layer.decay == RESET || layer.decay == SWITCH; }

    // What `Gates` reads, for some entries; the angles of a matrix are not its own.
    Block gating(const Entries<real>& entries) const {
        const bool matrix = size.planes > 2;
        Block block{};
        block.width = size.D, block.angles = layer.angles / size.turns, block.gates = layer.gates;
        block.rotate = matrix ? int64_t(NONE) : layer.rotate;
        block.bounded_angle = layer.bounded_angle, block.decay = layer.decay;
        block.theta = entries.theta, block.delta = entries.delta;
        block.g_theta = entries.g_theta, block.g_delta = entries.g_delta;
        return block;
    }
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

// Whether no vector of m of these numbers can be longer than the limit.
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

// What comes back from later steps, if there are any.
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
