// What a row of inputs says about a recurrence with parts of the authors' code, and the adjoint; nn/released.py has the
// equations. An input is not an entry of its own here: Θ and P depend on the steps before it.
//   Θ_t = θ_1 + … + θ_t            t_t = e^{iΘ_t} z_t      x_t = B t_t + b, B the same for both planes
//   δ_t, ε_t                       projections of z or of x; of a state that is looked at, δ_t = W (z_t + h_{t-1}) + b
//   v_t = γ_t x_t                  γ = (1 + sin ε)/2 or softplus δ
//   u_t = v_t, or α_t c_t v_t      c_t = P_{t-1} / (P_{t-1} + 1e-9), a constant, P_t = α_1 … α_t
// and back, beside what block.hpp has:
//   g_Θ = ⟨i t, g_t⟩               g_θ_t = Σ_{s ≥ t} g_Θ_s where angles are summed
//   g_t = Bᵀ g_x                   g_B += g_x tᵀ
//   g_ε = cos ε / 2 g_γ            g_γ = ⟨x, g_v⟩
//   a cumulative sum               ∂L/∂ log α_t = Σ_{s ≥ t} ⟨h_s, g_{h_s}⟩, without what comes from later steps
//   a state that is looked at      the carry gains Wᵀ g_δ, and g_W += g_δ h_{t-1}ᵀ
// A frame is what a step hands on beside its state: Θ and log P.
#pragma once

#include "entries.hpp"

namespace TARGET {

constexpr double DIVISOR = 1e-9;

// Between −π and π. In double precision, because 2π as a float would add an error of its own at every turn.
template <typename real>
INLINE real around(double angle) {
    return real(angle - 2 * M_PI * std::nearbyint(angle / (2 * M_PI)));
}

template <typename real>
struct Released {
    const Level<real>& level;
    const Passage<real>& row;
    const Layer& layer = level.layer;
    const Entries<real>& of = row.entries;
    const int64_t D = level.size.D, E = layer.angles, G = layer.gates, extent = level.size.extent, n = 2 * D;
    const bool turns_input = layer.rotate == INPUT, turns_state = layer.rotate == STATE;
    const bool sine = layer.entrance_weight >= 0, mapped = layer.map_weight >= 0;
    const bool by_entering = layer.gate_input == OF_ENTERING, by_state = layer.gate_input == OF_STATE;

    INLINE const real* turned() const { return turns_input ? of.turned : of.z; }
    INLINE const real* x() const { return mapped ? of.x : turned(); }
    INLINE const real* seen() const { return by_entering ? x() : of.z; }
    INLINE int64_t gate_of(int64_t t, int64_t i) const { return t * G + (G == 1 ? 0 : i); }

    void forward(int64_t T) const {
        if (layer.rotate != NONE) turn(T);
        if (mapped) project(level.map_weight, level.map_bias, turned(), of.x, 2 * T, D, D, D, D, 1);
        if (sine) project(level.entrance_weight, level.entrance_bias, seen(), of.wave, T, n, G, n, G, 1);
        if (layer.cumulative && by_entering) {
            for (int64_t t = 0; t < T; t++) enter(t);
            project(level.gate_weight, level.gate_bias, of.u, of.delta, T, n, G, n, G, 1);
        } else {
            project(level.gate_weight, level.gate_bias, seen(), by_state ? of.base : of.delta, T, n, G, n, G, 1);
        }
        for (int64_t t = 0; !by_state && t < T; t++) decide(t);
    }

    // δ of a step that looks at the state before it, and what follows from it.
    void look(int64_t t, const real* before) const {
        for (int64_t g = 0; g < G; g++)
            of.delta[t * G + g] = of.base[t * G + g] + dot(level.gate_weight + g * n, before, n);
        decide(t);
    }

    // From the gradients of a and u of this step, the first to δ, and on to the state before it.
    void look_adjoint(int64_t t, const real* before, const real* g_u, real* __restrict carry) const {
        for (int64_t g = 0; g < G; g++) of.g_delta[t * G + g] = 0;
        for (int64_t i = 0; i < extent; i++)
            of.g_delta[gate_of(t, i)] += slope(t, i, sine ? real(0) : along(x() + t * n, g_u, i));
        for (int64_t g = 0; g < G; g++) {
            const real by = of.g_delta[t * G + g], *__restrict weight = level.gate_weight + g * n;
            real* __restrict g_weight = level.g_gate_weight + g * n;
#pragma omp simd
            for (int64_t d = 0; d < n; d++) {
                carry[d] += by * weight[d];
                g_weight[d] += by * before[d];
            }
        }
    }

    // From g_a and g_u, which it changes, to the gradients of projections, and of z, to which it adds.
    void backward(int64_t T, const real* later, const Memory<real>& memory) const {
        real *g_x = memory.gradients.g_x, *g_turned = mapped ? memory.gradients.g_turned : g_x;
        real* g_seen = by_entering ? g_x : of.g_z;
        if (layer.cumulative) cumulative_adjoint(T);
        for (int64_t t = 0; t < T; t++) enter_adjoint(t, g_x + t * n);
        if (sine)
            project_adjoint(level.entrance_weight, level.g_entrance_weight, level.g_entrance_bias, seen(), of.g_wave,
                            g_seen, T, n, G, n, G, 1);
        if (!(layer.cumulative && by_entering))
            project_adjoint(level.gate_weight, level.g_gate_weight, level.g_gate_bias, seen(), of.g_delta, g_seen, T, n,
                            G, n, G, 1);
        if (mapped)
            project_adjoint<false>(level.map_weight, level.g_map_weight, level.g_map_bias, turned(), g_x, g_turned,
                                   2 * T, D, D, D, D, 1);
        if (turns_input)
            for (int64_t t = 0; t < T; t++)
                E == 1 ? turn_adjoint<true>(t, g_turned + t * n) : turn_adjoint<false>(t, g_turned + t * n);
        else add(g_turned, of.g_z, T * n);
        if (layer.rotate != NONE) angles_adjoint_of_row(T, later);
    }

   private:
    // Angles, their sums, cos and sin of them, and what is turned by them.
    void turn(int64_t T) const {
        project_angles(level, of, T);
        for (int64_t t = 0; t < T; t++) {
            const real* before = row.frame_before(t, level.frame, 2 * extent);
            real *frame = row.frame + t * 2 * extent, *cosine = of.turns + t * 2 * E, *sine = cosine + E;
            for (int64_t i = 0; i < E; i++) {
                const real theta = bounded(of.theta[t * E + i]);
                frame[i] = layer.summed ? around<real>(double(before[i]) + theta) : theta;
                cos_sin(frame[i], cosine[i], sine[i]);
            }
            if (!turns_input) continue;
            if (E == 1) turn<true>(of.z + t * n, cosine, sine, of.turned + t * n);
            else turn<false>(of.z + t * n, cosine, sine, of.turned + t * n);
        }
    }

    INLINE real bounded(real theta) const {
        constexpr real most = real(ANGLE_LIMIT);
        if (layer.bounded_angle) return real(M_PI) * hyperbolic_tangent(theta);
        return theta > most ? most : theta < -most ? -most : theta;
    }

    template <bool shared>
    void turn(const real* __restrict z, const real* __restrict cosine, const real* __restrict sine,
              real* __restrict out) const {
        const int64_t D = this->D;
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            const int64_t i = shared ? 0 : d;
            out[d] = cosine[i] * z[d] - sine[i] * z[D + d];
            out[D + d] = cosine[i] * z[D + d] + sine[i] * z[d];
        }
    }

    // Adds to g_z; sets the gradients of Θ.
    template <bool shared>
    void turn_adjoint(int64_t t, const real* __restrict g) const {
        const int64_t D = this->D;
        const real *__restrict cosine = of.turns + t * 2 * E, *__restrict sine = cosine + E;
        const real* __restrict out = of.turned + t * n;
        real *__restrict g_z = of.g_z + t * n, *__restrict g_theta = of.g_theta + t * E, sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < D; d++) {
            const int64_t i = shared ? 0 : d;
            const real by = out[d] * g[D + d] - out[D + d] * g[d];
            if (shared) sum += by;
            else g_theta[d] = by;
            g_z[d] += cosine[i] * g[d] + sine[i] * g[D + d];
            g_z[D + d] += cosine[i] * g[D + d] - sine[i] * g[d];
        }
        if (shared) *g_theta = sum;
    }

    // From the gradients of Θ to those of what angles are projected from.
    void angles_adjoint_of_row(int64_t T, const real* later) const {
        for (int64_t i = 0; i < E; i++) {
            real sum = layer.summed && later ? later[i] : real(0);
            for (int64_t t = T - 1; t >= 0; t--) {
                real& g = of.g_theta[t * E + i];
                if (turns_state) g = state_turn(t, i);
                sum = layer.summed ? sum + g : g;
                const real theta = bounded(of.theta[t * E + i]);
                if (layer.bounded_angle) g = sum * (real(M_PI) - theta * theta / real(M_PI));
                else g = std::fabs(theta) < real(ANGLE_LIMIT) ? sum : real(0);
            }
            if (layer.summed && level.g_frame) level.g_frame[i] = sum;
        }
        angles_adjoint(level, of, T);
    }

    // ∂L/∂θ where a = α e^{iθ}.
    real state_turn(int64_t t, int64_t angle) const {
        const real *g = of.g_a + t * 2 * extent, *cosine = of.turns + t * 2 * E + angle, *sine = cosine + E;
        real sum = 0;
        for (int64_t i = E == 1 ? 0 : angle; i < (E == 1 ? extent : angle + 1); i++)
            sum += of.alpha[t * extent + i] * (*cosine * g[extent + i] - *sine * g[i]);
        return sum;
    }

    // γ and v = γ x, in the place of u; γ as far as it comes from a sine.
    void enter(int64_t t) const {
        for (int64_t i = 0; i < extent; i++) of.gamma[t * extent + i] = (1 + std::sin(of.wave[gate_of(t, i)])) / 2;
        scale(x() + t * n, of.gamma + t * extent, of.u + t * n);
    }

    // Also in place.
    void scale(const real* from, const real* by, real* to) const {
        const int64_t D = this->D, n = this->n;
        if (extent == 1) {
            const real factor = *by;
#pragma omp simd
            for (int64_t d = 0; d < n; d++) to[d] = factor * from[d];
        } else {
#pragma omp simd
            for (int64_t d = 0; d < D; d++) {
                to[d] = by[d] * from[d];
                to[D + d] = by[d] * from[D + d];
            }
        }
    }

    // ⟨x, y⟩ of a channel, or of all where they share gates.
    real along(const real* x, const real* y, int64_t i) const {
        if (extent == 1) return dot(x, y, n);
        return x[i] * y[i] + x[D + i] * y[D + i];
    }

    // From δ and ε of a step to a and u.
    void decide(int64_t t) const {
        const int64_t decay = layer.decay, first = t * extent;
        for (int64_t i = 0; i < extent; i++) {
            const real soft = softplus(of.delta[gate_of(t, i)]);
            const real alpha = decay == EXP ? exponential(-soft) : decay == UNIT ? real(1) : soft;
            of.alpha[first + i] = alpha;
            real* a = of.a + t * level.size.numbers;
            if (turns_state) {
                const real* cosine = of.turns + t * 2 * E + (E == 1 ? 0 : i);
                a[i] = alpha * cosine[0], a[extent + i] = alpha * cosine[E];
            } else a[i] = alpha;
            if (!sine) of.gamma[first + i] = soft;
            if (!layer.cumulative) continue;
            const real before = row.frame_before(t, level.frame, 2 * extent)[extent + i];
            of.share[first + i] = alpha * sigmoid(before - real(std::log(DIVISOR)));
            row.frame[t * 2 * extent + extent + i] = before - soft;
        }
        if (sine) enter(t);
        else scale(x() + t * n, of.gamma + first, of.u + t * n);
        if (layer.cumulative) scale(of.u + t * n, of.share + first, of.u + t * n);
    }

    // g_δ of a step, of one channel or of all, from g_a and g_γ.
    real slope(int64_t t, int64_t i, real g_gamma) const {
        const int64_t decay = layer.decay;
        const real delta = of.delta[gate_of(t, i)], rises = delta > 20 ? real(1) : sigmoid(delta);
        const real *g = of.g_a + t * level.size.numbers, alpha = of.alpha[t * extent + i];
        real by_alpha = g[i];
        if (layer.cumulative) return -rises * by_alpha;
        if (turns_state) {
            const real* cosine = of.turns + t * 2 * E + (E == 1 ? 0 : i);
            by_alpha = cosine[0] * g[i] + cosine[E] * g[extent + i];
        }
        by_alpha = decay == EXP ? -alpha * by_alpha : decay == UNIT ? real(0) : by_alpha;
        return rises * (g_gamma + by_alpha);
    }

    // From g_u to g_v, also through δ where that is a projection of v.
    void cumulative_adjoint(int64_t T) const {
        std::memset(of.g_delta, 0, T * G * sizeof(real));
        for (int64_t t = 0; t < T; t++) {
            for (int64_t i = 0; i < extent; i++) of.g_delta[gate_of(t, i)] += slope(t, i, 0);
            scale(of.g_u + t * n, of.share + t * extent, of.g_u + t * n);
            scale(x() + t * n, of.gamma + t * extent, of.u + t * n);
        }
        if (by_entering)
            project_adjoint(level.gate_weight, level.g_gate_weight, level.g_gate_bias, of.u, of.g_delta, of.g_u, T, n, G,
                            n, G, 1);
    }

    // From g_v to g_x, g_ε and g_δ, unless that is known.
    void enter_adjoint(int64_t t, real* g_x) const {
        const bool known = layer.cumulative || by_state;
        real *g_v = of.g_u + t * n, *g_wave = of.g_wave + t * G, *g_delta = of.g_delta + t * G;
        for (int64_t g = 0; sine && g < G; g++) g_wave[g] = 0;
        for (int64_t g = 0; !known && g < G; g++) g_delta[g] = 0;
        for (int64_t i = 0; i < extent; i++) {
            const real g_gamma = along(x() + t * n, g_v, i);
            const int64_t g = G == 1 ? 0 : i;
            if (sine) g_wave[g] += std::cos(of.wave[t * G + g]) / 2 * g_gamma;
            if (!known) g_delta[g] += slope(t, i, sine ? real(0) : g_gamma);
        }
        scale(g_v, of.gamma + t * extent, g_x);
    }
};

// Adds to ∂L/∂ log α what a state says of it, before anything comes from later steps.
template <typename real>
void gather_decay(const real* h, const real* g, real* sums, int64_t extent, int64_t D) {
    if (extent == 1) *sums += dot(h, g, 2 * D);
    else
        for (int64_t d = 0; d < D; d++) sums[d] += h[d] * g[d] + h[D + d] * g[D + d];
}

}  // namespace TARGET
