// The decoder: scores s = W f + b of the labelled steps of a row, and the adjoint.
//   f    the last layer's output h; or h / |h|; or its angle φ in every channel, with the gradient i h / |h|²
// A complex decoder reads class v by W_v = r_v ω_v on the real plane and i_v ω_v on the other one: W is prepared
// from ω (classes, D) and r, i (2, classes).
#pragma once

#include "level.hpp"

namespace TARGET {

template <typename real>
struct Decoder {
    const Training& model;
    const real *weight, *bias;  // as they are used
    real *g_weight, *g_bias;
    const int64_t D = model.width, state = model.order * D, inputs = model.reading == ANGLES ? D : state;

    // The scores, (classes, count), after `steps`.
    void forward(const real* outputs, const int64_t* steps, int64_t count, const Memory<real>& memory) const {
        for (int64_t i = 0; i < count; i++) {
            const real* f = feature(outputs + steps[i] * state, memory.features + i * inputs);
            for (int64_t c = 0; c < model.classes; c++)
                memory.logits[c * count + i] = dot(weight + c * inputs, f, inputs) + bias[c];
        }
    }

    // From the gradients of scores, up to `scale`, to those of outputs, all of them, and of W and b.
    void backward(const real* outputs, const int64_t* steps, int64_t count, int64_t T, real scale,
                  const Memory<real>& memory) const {
        std::memset(memory.g, 0, T * state * sizeof(real));
        for (int64_t i = 0; i < count; i++) {
            const real* h = outputs + steps[i] * state;
            const real* __restrict f = model.reading == STATES ? h : memory.features + i * inputs;
            real* __restrict g_f = memory.g + steps[i] * state;
            for (int64_t c = 0; c < model.classes; c++) {
                const real g = memory.logits[c * count + i] * scale;
                const real* __restrict w = weight + c * inputs;
                real* __restrict g_w = g_weight + c * inputs;
                g_bias[c] += g;
#pragma omp simd
                for (int64_t d = 0; d < inputs; d++) {
                    g_f[d] += g * w[d];
                    g_w[d] += g * f[d];
                }
            }
            if (model.reading == PHASORS) to_unit_adjoint(h, g_f, model.order, D, real(0));
            if (model.reading == ANGLES) angle_adjoint(h, g_f);
        }
    }

   private:
    const real* feature(const real* h, real* f) const {
        if (model.reading == STATES) return h;
        if (model.reading == PHASORS) return to_unit(h, f, model.order, D, real(0)), f;
        for (int64_t d = 0; d < D; d++) f[d] = std::atan2(h[D + d], nowhere(h, d) ? real(1) : h[d]);
        return f;
    }

    // Next to 0, where φ is next to 0 too, and its gradient finite.
    bool nowhere(const real* h, int64_t d) const { return h[d] * h[d] + h[D + d] * h[D + d] < real(TINY); }

    // In place from g_φ, (D), to g_h, (2, D).
    void angle_adjoint(const real* h, real* g) const {
        for (int64_t d = 0; d < D; d++) {
            const bool at_zero = nowhere(h, d);
            const real re = at_zero ? real(1) : h[d], im = h[D + d], square = re * re + im * im;
            g[D + d] = g[d] * re / square;
            g[d] = at_zero ? real(0) : -g[d] * im / square;
        }
    }
};

// W of a complex decoder, (classes, 2, D), from ω and the projection, and the adjoint, which adds.
template <typename real>
void compose(const real* omega, const real* projection, real* weight, int64_t classes, int64_t D) {
    for (int64_t c = 0; c < classes; c++)
        for (int64_t plane = 0; plane < 2; plane++)
            for (int64_t d = 0; d < D; d++)
                weight[(c * 2 + plane) * D + d] = projection[plane * classes + c] * omega[c * D + d];
}

template <typename real>
void compose_adjoint(const real* omega, const real* projection, const real* g, real* g_omega, real* g_projection,
                     int64_t classes, int64_t D) {
    for (int64_t c = 0; c < classes; c++)
        for (int64_t plane = 0; plane < 2; plane++)
            for (int64_t d = 0; d < D; d++) {
                g_omega[c * D + d] += projection[plane * classes + c] * g[(c * 2 + plane) * D + d];
                g_projection[plane * classes + c] += omega[c * D + d] * g[(c * 2 + plane) * D + d];
            }
}

}  // namespace TARGET
