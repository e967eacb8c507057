// Blocks one after the other, forward and backward, for the rows of a batch.
#pragma once

#include "adjoint.hpp"
#include "block.hpp"

namespace TARGET {

// The options that the inner loops are compiled for.
template <bool shared, bool unit, bool silu, bool norm>
struct Options {};

template <bool... chosen, typename Work>
void with_options(const Block& block, const Work& work) {
    if constexpr (sizeof...(chosen) == 4) {
        work(Options<chosen...>{});
    } else {
        const bool options[] = {gates_shared(block), block.decay >= RESET, block.silu != 0, block.norm != 0};
        if (options[sizeof...(chosen)]) with_options<chosen..., true>(block, work);
        else with_options<chosen..., false>(block, work);
    }
}

template <typename real>
void begin_layer(const Block& block, const Scratch<real>& s, int64_t row) {
    strengthen(block, s, row);
    std::memset(s.carry, 0, 2 * block.width * sizeof(real));
}

// After the adjoint of a layer.
template <typename real>
void end_layer(const Block& block, const Scratch<real>& s, int64_t row) {
    const int64_t D = block.width;
    std::memcpy(at<real>(block.g_h0, row * 2 * D), s.carry, 2 * D * sizeof(real));
    real* g_skip = at<real>(block.g_skip, row * D);
    for (int64_t d = 0; g_skip && d < D; d++) g_skip[d] *= s.skip[d] * (1 - s.skip[d]);
}

// Rows of a batch through all layers, tile by tile: what one layer writes the next one finds in the cache.
template <bool shared, bool unit, bool silu, bool norm, typename real>
void stack_rows(Options<shared, unit, silu, norm>, const Stack& stack, real* memory, int64_t first, int64_t last) {
    const int64_t D = stack.width, T = stack.steps, depth = stack.depth, end = (T - 1) / TILE * TILE;
    const bool backward = stack.blocks[depth - 1].g_out;
    for (int64_t row = first; row < last; row++) {
        for (int64_t l = 0; l < depth; l++) begin_layer(stack.blocks[l], Scratch<real>(memory, D, l), row);
        for (int64_t t = 0; !backward && t < T; t += TILE) {
            const int64_t offset = (row * T + t) * 2 * D;
            const real* z = at<real>(stack.blocks->z, offset);
            for (int64_t l = 0; l < depth; l++) {
                const Scratch<real> s(memory, D, l);
                real* out = stack.blocks[l].out ? at<real>(stack.blocks[l].out, offset) : s.between;
                forward_tile<shared, unit, silu, norm>(stack.blocks[l], s, row, t, z, out);
                z = out;
            }
        }
        if (!backward) continue;
        for (int64_t t = end; t >= 0; t -= TILE) {
            const int64_t offset = (row * T + t) * 2 * D;
            const real* g_out = at<real>(stack.blocks[depth - 1].g_out, offset);
            for (int64_t l = depth - 1; l >= 0; l--) {
                const Scratch<real> s(memory, D, l);
                real* g_z = l ? s.between : at<real>(stack.blocks->g_z, offset);
                const Soon<real> soon = l                ? Soon<real>(stack.blocks[l - 1], row, t)
                                        : t              ? Soon<real>(stack.blocks[depth - 1], row, t - TILE)
                                        : row + 1 < last ? Soon<real>(stack.blocks[depth - 1], row + 1, end)
                                                         : Soon<real>();
                backward_tile<shared, unit, silu, norm>(stack.blocks[l], s, row, t, g_out, g_z, soon);
                g_out = g_z;
            }
        }
        for (int64_t l = 0; l < depth; l++) end_layer(stack.blocks[l], Scratch<real>(memory, D, l), row);
    }
}

// One stretch of one layer of a wave (wave.hpp): what the layers below and above are at may be other stretches.
template <bool shared, bool unit, bool silu, bool norm, typename real>
void stack_stretch(Options<shared, unit, silu, norm>, const Wave& wave, real* memory, int64_t l, int64_t number) {
    const Block& block = wave.stack->blocks[l];
    const int64_t D = block.width, T = block.steps, row = wave.row, begin = number * STRETCH;
    const int64_t end = T - begin < STRETCH ? T : begin + STRETCH;
    Scratch<real> s(memory, D, 0);
    s.carry = static_cast<real*>(wave.carried) + l * 3 * D, s.skip = s.carry + 2 * D;
    // What a layer hands on at step t, where the caller gave no place for it.
    const auto between = [&](int64_t layer, int64_t t) {
        return static_cast<real*>(wave.between) + (layer * AFLOAT * STRETCH + t % (AFLOAT * STRETCH)) * 2 * D;
    };
    const auto out_of = [&](int64_t layer, int64_t t) {
        void* out = wave.stack->blocks[layer].out;
        return out ? at<real>(out, (row * T + t) * 2 * D) : between(layer, t);
    };
    if (!wave.backward) {
        if (!begin) begin_layer(block, s, row);
        for (int64_t t = begin; t < end; t += TILE) {
            const real* z = l ? out_of(l - 1, t) : at<real>(block.z, (row * T + t) * 2 * D);
            forward_tile<shared, unit, silu, norm>(block, s, row, t, z, out_of(l, t));
        }
        return;
    }
    if (end == T) begin_layer(block, s, row);
    for (int64_t t = (end - 1) / TILE * TILE; t >= begin; t -= TILE) {
        const int64_t offset = (row * T + t) * 2 * D;
        const real* g_out = block.g_out ? at<real>(block.g_out, offset) : between(l + 1, t);
        real* g_z = l ? between(l, t) : at<real>(block.g_z, offset);
        const Soon<real> soon = t ? Soon<real>(block, row, t - TILE) : Soon<real>();
        backward_tile<shared, unit, silu, norm>(block, s, row, t, g_out, g_z, soon);
    }
    if (!begin) end_layer(block, s, row);
}

}  // namespace TARGET
