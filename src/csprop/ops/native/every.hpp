// Runs every sequence of one length through a model and computes the scores after its last token.
// walk.hpp and finish.hpp have the layers, reading.hpp the scores.
//
// Glossary
//   V, T     tokens that are read, 0 … V − 1; the length of the sequences
//   prefix   t tokens; there are V^t, numbered in lexicographic order. Prefix p is p / V and one more token, p % V
//   block    prefixes of one length with consecutive numbers, at most BLOCK of them
//   subtree  a block of prefixes of the length `top`, and all sequences that begin with them; one thread walks it
//
//   h(p) = a(z) h(p / V) + u(z)      z: in the first layer the token p % V, elsewhere the output of the layer below
//
// A prefix is computed once for all sequences that begin with it: V^T · V / (V − 1) steps at most, not T V^T. The
// walk goes depth first from block to block, and keeps the states of one block for every length, which stay in the
// cache. Subtrees and blocks do not depend on the number of threads, nor do the scores.
#pragma once

#include "reading.hpp"
#include "walk.hpp"

namespace TARGET {

template <typename real>
struct Every {
    const Subtrees& trees;
    const Plan& plan;
    const Model& model;
    const int64_t V = trees.symbols, state = model.order * model.width;
    Room<real> shared{static_cast<real*>(plan.prepared)}, own;
    const Prepared<real> prepared{model, plan.entries, shared};
    const Memory<real> memory{model, BLOCK, 1, own};
    const Kept<real> kept{model, trees.length, own};

    Every(const Subtrees& trees, void* numbers)
        : trees(trees), plan(*trees.plan), model(*plan.model), own{static_cast<real*>(numbers)} {
        for (int64_t l = 0; l < model.depth; l++) {
            Passage<real>& passage = memory.passages[l];
            passage = {};
            passage.lay_out(model, l, BLOCK, own);
            passage.parent = kept.parent;
            if (l) passage.entries.z = memory.passages[l - 1].out;
        }
        memory.passages[0].entries = prepared.entries;
        memory.passages[0].entries.of_step = kept.token;
        for (int64_t i = 0; i < BLOCK; i++) memory.steps[i] = i;
    }

    void go_through(int64_t first, int64_t last) const {
        for (int64_t tree = first; tree < last; tree++) {
            const int64_t from = trees.prefixes * tree / trees.batch, to = trees.prefixes * (tree + 1) / trees.batch;
            int64_t share = trees.prefixes;  // the prefixes of length `top` that begin alike
            for (int64_t t = 1; t <= trees.top; t++) {
                share /= V;
                advance(t, from / share / V, from / share, (to - 1) / share + 1, plan.inexact[tree]);
            }
            descend(trees.top, from, to, plan.inexact[tree]);
        }
    }

   private:
    // All sequences that begin with a block of prefixes of length t, whose states are known.
    void descend(int64_t t, int64_t first, int64_t last, int64_t& inexact) const {
        if (t == trees.length) return read(first, last);
        const int64_t count = (last - first) * V, blocks = (count + BLOCK - 1) / BLOCK;
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t from = first * V + count * i / blocks, to = first * V + count * (i + 1) / blocks;
            advance(t + 1, first, from, to, inexact);
            descend(t + 1, from, to, inexact);
        }
    }

    // The states of prefixes of length t, from the states of the block before them, which begins with `above`.
    void advance(int64_t t, int64_t above, int64_t first, int64_t last, int64_t& inexact) const {
        for (int64_t p = first; p < last; p++) {
            kept.parent[p - first] = p / V - above;
            kept.token[p - first] = p % V;
        }
        for (int64_t l = 0; l < model.depth; l++) {
            Passage<real>& passage = memory.passages[l];
            passage.parents = t == 1 ? prepared.start + l * state : kept.states(t - 1, l);
            passage.h = kept.states(t, l);
            const Read read{nullptr, l < model.depth - 1 || t == trees.length ? last - first : 0};
            layer_forward(Level<real>(plan, prepared, l, nullptr), passage, last - first, read, memory, inexact);
        }
    }

    // The scores of a block of sequences, from the outputs of the last layer.
    void read(int64_t first, int64_t last) const {
        const auto value = [&](int64_t i) { return static_cast<const real*>(model.weights[i].value); };
        const int64_t count = last - first, classes = model.classes;
        const real* weight = model.projection >= 0 ? prepared.decoder : value(model.decoder_weight);
        const Decoder<real> decoder{model, weight, value(model.decoder_bias), nullptr, nullptr};
        decoder.forward(memory.passages[model.depth - 1].out, memory.steps, count, count, memory);
        real* scores = static_cast<real*>(trees.scores) + first * classes;
        for (int64_t i = 0; i < count; i++)
            for (int64_t c = 0; c < classes; c++) scores[i * classes + c] = memory.logits[c * count + i];
    }
};

}  // namespace TARGET
