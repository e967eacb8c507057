// One token through the whole model: embedding, blocks, decoder, with the state updated in place.
#pragma once

#include "stack.hpp"

namespace TARGET {

// y = W x + b.
template <typename real>
void linear(const void* weight, const void* bias, const real* x, real* y, int64_t inputs, int64_t outputs) {
    for (int64_t row = 0; row < outputs; row++)
        y[row] = dot(at<real>(weight, row * inputs), x, inputs) + (bias ? *at<real>(bias, row) : real(0));
}

template <typename real>
void stream_step(const Stream& stream, int64_t token) {
    const int64_t D = stream.width;
    const real* z = at<real>(stream.embedding, token * 2 * D);
    for (int64_t l = 0; l < stream.depth; l++) {
        Block& block = stream.blocks[l];
        block.z = z;
        for (const ProjectionFields& each : PROJECTIONS)  // those that the channels share are the block's work
            if (block.*each.outputs > 1)
                linear(block.*each.weight, block.*each.bias, z, at<real>(block.*each.result, 0), block.*each.inputs, D);
        const Stack alone{stream.wide, 1, 1, D, 1, &block};
        with_options(block, [&](auto options) { stack_rows(options, alone, static_cast<real*>(stream.scratch), 0, 1); });
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
