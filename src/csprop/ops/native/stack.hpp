// Blocks one after the other, forward and backward, for the rows of a batch.
#pragma once

#include "adjoint.hpp"
#include "block.hpp"

namespace TARGET {

// Rows of a batch through all layers, tile by tile: what one layer writes the next one finds in the cache.
template <bool shared, bool unit, bool silu, bool norm, typename real>
void stack_rows(const Stack& stack, void* memory, int64_t first, int64_t last) {
    const int64_t D = stack.blocks->width, T = stack.blocks->steps, depth = stack.depth, end = (T - 1) / TILE * TILE;
    for (int64_t row = first; row < last; row++) {
        for (int64_t l = 0; l < depth; l++) {
            const Scratch<real> s(memory, D, l);
            strengthen(stack.blocks[l], s, row);
            std::memset(s.carry, 0, 2 * D * sizeof(real));
        }
        if (!stack.blocks[depth - 1].g_out) {
            for (int64_t t = 0; t < T; t += TILE) {
                const int64_t offset = (row * T + t) * 2 * D;
                const real* z = at<real>(stack.blocks->z, offset);
                for (int64_t l = 0; l < depth; l++) {
                    const Scratch<real> s(memory, D, l);
                    real* out = stack.blocks[l].out ? at<real>(stack.blocks[l].out, offset) : s.between;
                    forward_tile<shared, unit, silu, norm>(stack.blocks[l], s, row, t, z, out);
                    z = out;
                }
            }
            continue;
        }
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
        for (int64_t l = 0; l < depth; l++) {
            const Block& block = stack.blocks[l];
            const Scratch<real> s(memory, D, l);
            std::memcpy(at<real>(block.g_h0, row * 2 * D), s.carry, 2 * D * sizeof(real));
            real* g_skip = at<real>(block.g_skip, row * D);
            for (int64_t d = 0; g_skip && d < D; d++) g_skip[d] *= s.skip[d] * (1 - s.skip[d]);
        }
    }
}

// Chooses, one after the other, the options that the inner loops are compiled for.
template <typename real, bool... chosen>
void stack_either(const Stack& stack, void* memory, int64_t first, int64_t last) {
    if constexpr (sizeof...(chosen) == 4) {
        stack_rows<chosen..., real>(stack, memory, first, last);
    } else {
        const Block& block = *stack.blocks;
        const bool options[] = {gates_shared(block), block.decay >= RESET, block.silu != 0, block.norm != 0};
        if (options[sizeof...(chosen)]) stack_either<real, chosen..., true>(stack, memory, first, last);
        else stack_either<real, chosen..., false>(stack, memory, first, last);
    }
}

}  // namespace TARGET
