// One token through the whole model: embedding, blocks, decoder, with the state updated in place.
#pragma once

#include "block.hpp"

namespace TARGET {

// y = W x + b.
template <typename real>
void linear(const void* weight, const void* bias, const real* x, real* y, int64_t inputs, int64_t outputs) {
    for (int64_t row = 0; row < outputs; row++) {
        const real* __restrict w = at<real>(weight, row * inputs);
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < inputs; i++) sum += w[i] * x[i];
        y[row] = sum + (bias ? *at<real>(bias, row) : real(0));
    }
}

template <typename real>
void stream_step(const Stream& stream, int64_t token) {
    const int64_t D = stream.width;
    Scratch<real> scratch(stream.scratch, D);
    real *out = at<real>(stream.scratch, SCRATCH * D), *theta = out + 4 * D, *delta = theta + D;
    const real* z = at<real>(stream.embedding, token * 2 * D);
    for (int64_t l = 0; l < stream.depth; l++) {
        const Layer& layer = stream.layers[l];
        linear(layer.angle_weight, layer.angle_bias, z, theta, stream.angle_inputs, stream.angles);
        linear(layer.gate_weight, layer.gate_bias, z, delta, 2 * D, stream.gates);
        Block block{};
        block.batch = block.steps = block.groups = 1;
        block.width = D, block.angles = stream.angles, block.gates = stream.gates;
        block.rotate = stream.rotate, block.bounded_angle = stream.bounded_angle, block.decay = stream.decay;
        block.silu = stream.silu, block.norm = stream.norm;
        block.z = z, block.theta = theta, block.delta = delta, block.skip = layer.skip, block.start = layer.start;
        block.h = at<real>(stream.state, l * 2 * D), block.h0 = block.h;
        block.out = out + (l % 2) * 2 * D;
        block_rows(block, scratch, 0, 1);
        z = static_cast<const real*>(block.out);
    }
    if (stream.unit_features) {
#pragma omp simd
        for (int64_t d = 0; d < D; d++) {
            const real scale = 1 / size(z[d], z[D + d]);
            scratch.p[d] = z[d] * scale, scratch.p[D + d] = z[D + d] * scale;
        }
    }
    linear(stream.decoder_weight, stream.decoder_bias, stream.unit_features ? scratch.p : z,
           at<real>(stream.logits, 0), 2 * D, stream.classes);
}

}  // namespace TARGET
