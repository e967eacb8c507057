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
    const real* z = at<real>(stream.embedding, token * 2 * D);
    for (int64_t l = 0; l < stream.depth; l++) {
        Block& block = stream.blocks[l];
        block.z = z;
        if (block.angles > 1)
            linear(block.angle_weight, block.angle_bias, z, at<real>(block.theta, 0), block.angle_inputs, D);
        if (block.gates > 1)
            linear(block.gate_weight, block.gate_bias, z, at<real>(block.delta, 0), block.gate_inputs, D);
        stack_either<real>(Stack{stream.wide, 1, 1, D, 1, &block}, stream.scratch, 0, 1);
        z = at<real>(block.out, 0);
    }
    real* features = at<real>(stream.scratch, 0);
    for (int64_t d = 0; stream.unit_features && d < D; d++) {
        const real scale = 1 / size(z[d], z[D + d]);
        features[d] = z[d] * scale, features[D + d] = z[D + d] * scale;
    }
    linear(stream.decoder_weight, stream.decoder_bias, stream.unit_features ? features : z,
           at<real>(stream.logits, 0), 2 * D, stream.classes);
}

}  // namespace TARGET
