// The decoder: scores s = W f + b of the labelled steps of a row, and the adjoint.
//   f    the last layer's output h; or h / |h|; or its angle φ in every channel, with the gradient i h / |h|²
// A complex decoder reads class v by W_v = r_v ω_v on the real plane and i_v ω_v on the other one: W is prepared
// from ω (classes, D) and r, i (2, classes).
#pragma once

#include "level.hpp"
#include "products.hpp"

namespace TARGET {

template <typename real>
struct Decoder {
    const Model& model;
    const real *weight, *bias;  // as they are used
    real *g_weight, *g_bias;
    const int64_t D = model.width, state = model.order * D, inputs = model.reading == Reading::angle ? D : state;

    // The scores, (classes, count), after `steps` of T.
    void forward(const real* outputs, const int64_t* steps, int64_t count, int64_t T, const Memory<real>& memory) const {
        const bool as_they_are = model.reading == Reading::state && count == T;
        const real* f = as_they_are ? outputs : memory.features;
        for (int64_t i = 0; !as_they_are && i < count; i++)
            read(outputs + steps[i] * state, memory.features + i * inputs);
        project(weight, bias, f, memory.logits, count, inputs, model.classes, inputs, 1, count);
    }

    // From the gradients of the scores to memory.g, the gradients of all outputs, and to the gradients of W and b.
    void backward(const real* outputs, const int64_t* steps, int64_t count, int64_t T,
                  const Memory<real>& memory) const {
        const bool as_they_are = model.reading == Reading::state && count == T;
        const real* f = as_they_are ? outputs : memory.features;
        real* g = as_they_are ? memory.g : memory.below;
        if (!as_they_are) std::memset(memory.g, 0, T * state * sizeof(real));
        project_adjoint<false>(weight, g_weight, g_bias, f, memory.logits, g, count, inputs, model.classes, inputs, 1,
                               count);
        for (int64_t i = 0; !as_they_are && i < count; i++) {
            const real* h = outputs + steps[i] * state;
            real* g_h = memory.g + steps[i] * state;
            std::memcpy(g_h, g + i * inputs, inputs * sizeof(real));
            if (model.reading == Reading::phasor) to_unit_adjoint(h, g_h, model.order, D, real(0));
            if (model.reading == Reading::angle) angle_adjoint(h, g_h);
        }
    }

   private:
    void read(const real* h, real* f) const {
        if (model.reading == Reading::state) std::memcpy(f, h, state * sizeof(real));
        if (model.reading == Reading::phasor) to_unit(h, f, model.order, D, real(0));
        for (int64_t d = 0; model.reading == Reading::angle && d < D; d++)
            f[d] = std::atan2(h[D + d], nowhere(h, d) ? real(1) : h[d]);
    }

    // Replaces 0 by a number near it: φ is near 0 there too, and its gradient is finite.
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
