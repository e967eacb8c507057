// Rows through a whole model: their scores and last states, the adjoint of these, or a step of training. level.hpp has
// the equations of a layer and their adjoint; walk.hpp, finish.hpp, entries.hpp, rotors.hpp and router.hpp add to them;
// reading.hpp and loss.hpp have the equations of the scores and the loss.
//
// Glossary
//   row      a sequence of the batch, up to its last label; a row goes forward and back while it is in the cache
//   piece    steps of a row; a long row goes in pieces, which the way back computes again, and so does a row in which
//            a sequence begins anew
//   entry    an input of a layer, and what it says about the recurrence: a and u = b w. In the first layer an entry
//            is a token of the vocabulary, in the others a step of the row
//   chunk    rows that one thread goes through; they are the same whatever the number of threads
//   tensor   a parameter of the model, or what takes its place where it is not trained
//
// prepare     the start of states, the strength of skips, the entries of the first layer: once for all rows
// go_through  the rows of a chunk: z_0 … h^{(L)}, scores, loss, and the gradients back to the entries of the first
//             layer, summed for the chunk; or only as far as the scores
// descend     the gradients of chunks are summed in their order, then go through what was prepared; this ends an adjoint.
//             In training, with the norm N of all gradients, g ← g min(1, most / (N + 1e-6)) + λ p with the weight
//             decay λ, and for each parameter Adam's
//               m ← m + (1 − β₁)(g − m)     v ← β₂ v + (1 − β₂) g²
//               p ← p − lr / (1 − β₁ᵏ) · m / (sqrt(v / (1 − β₂ᵏ)) + ε)        at its step k
//             unless the loss or the norm is not finite
#pragma once

#include "loss.hpp"
#include "reading.hpp"
#include "walk.hpp"

namespace TARGET {

template <typename real>
struct Step {
    const Plan& plan;
    const Model& model;
    Room<real> room{static_cast<real*>(plan.prepared)};
    Prepared<real> prepared{model, plan.entries, room};
    const int64_t D = model.width, state = model.order * D, stack = model.depth * state;  // numbers of a state, and of all layers' states

    explicit Step(const Plan& plan) : plan(plan), model(*plan.model) {}

    void prepare(void* numbers) const {
        for (int64_t l = 0; l < model.depth; l++) {
            const Level<real> level(plan, prepared, l, nullptr);
            const Layer& layer = level.layer;
            real *start = prepared.start + l * state, *strength = prepared.strength + l * D;
            if (level.replaces()) to_unit(value(layer.start), start, model.order, D, real(0));
            else std::memcpy(start, value(layer.start), state * sizeof(real));
            for (int64_t d = 0; d < D; d++) strength[d] = layer.skip < 0 ? real(0) : sigmoid(value(layer.skip)[d]);
            if (level.point) to_unit(value(layer.point), prepared.point + l * state, model.order, D, real(0));
            if (level.targets && layer.choices)
                harden(level, value(layer.maps), prepared.targets + (level.targets - prepared.targets));
            else if (layer.choices)
                soften(level, value(layer.maps), real(model.temperature), prepared.maps + (level.maps - prepared.maps),
                       prepared.columns + (level.columns - prepared.columns));
        }
        if (model.projection >= 0)
            compose(value(model.decoder_weight), value(model.projection), prepared.decoder, model.classes, D);
        for (int64_t e = 0; e < plan.entries; e++)
            std::memcpy(prepared.entries.z + e * state, value(model.embedding) + plan.tokens[e] * state,
                        state * sizeof(real));
        enter(Level<real>(plan, prepared, 0, nullptr), prepared.entries, plan.entries, memory_at(numbers));
    }

    void go_through(const Chunk& chunk, void* numbers) const {
        Room<real> own{static_cast<real*>(numbers)};
        const Memory<real> memory(model, plan.span, plan.pieces, own);
        for (int64_t l = 0; l < model.depth; l++) {
            memory.passages[l] = {};
            memory.passages[l].lay_out(model, l, plan.span, own);
        }
        if (model.scores) {
            memory.passages[0].entries = prepared.entries;
            for (int64_t row = chunk.first; row < chunk.last; row++) read(chunk, row, memory);
            return;
        }
        const Gradients<real> sums = gradients(chunk.number);
        std::memset(sums.tensors, 0, plan.gradient_numbers * sizeof(real));
        memory.passages[0].entries = first_entries(sums);
        for (int64_t row = chunk.first; row < chunk.last; row++) go_through(chunk, row, sums, memory);
    }

    void descend(void* numbers) const {
        collect(memory_at(numbers));
        if (model.g_scores) return;
        Model& step = *plan.model;
        const real* g = static_cast<const real*>(model.gradient);
        double loss = 0, squares = 0;
        step.hits = 0;
        for (int64_t chunk = 0; chunk < plan.chunks; chunk++) loss += plan.losses[chunk], step.hits += plan.hits[chunk];
        for (int64_t i = 0; i < model.tensors; i++) {
            if (!model.weights[i].trained) continue;
            const real* __restrict some = g + plan.offsets[i];
            double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t k = 0; k < model.weights[i].size; k++) sum += double(some[k]) * some[k];
            squares += sum;
        }
        step.loss = loss / double(plan.labelled);
        step.norm = std::sqrt(double(real(squares)));  // infinite where numbers of this type would be
        step.taken = std::isfinite(step.loss) && std::isfinite(step.norm);
        const double scale = step.most / (step.norm + 1e-6);
        const auto take = model.weight_decay ? &Step::adam<true> : &Step::adam<false>;
        for (int64_t i = 0; step.taken && i < model.tensors; i++)
            if (model.weights[i].trained)
                (this->*take)(model.weights[i], g + plan.offsets[i], scale < 1 ? real(scale) : real(1));
    }

   private:
    const real* value(int64_t tensor) const { return static_cast<const real*>(model.weights[tensor].value); }

    Memory<real> memory_at(void* numbers) const {
        Room<real> own{static_cast<real*>(numbers)};
        return {model, plan.span, plan.pieces, own};
    }

    Gradients<real> gradients(int64_t chunk) const {
        Room<real> room{static_cast<real*>(plan.gradients) + chunk * plan.gradient_numbers};
        return {model, plan.offsets[model.tensors] - plan.offsets[model.first_of_rows], plan.entries, room};
    }

    // Where the gradients of all tensors would begin, those of a chunk being the later ones.
    real* tensors_of(const Gradients<real>& chunk) const { return chunk.tensors - plan.offsets[model.first_of_rows]; }

    // The entries of the first layer, with the gradients that are summed here.
    Entries<real> first_entries(const Gradients<real>& sums) const {
        Entries<real> entries = prepared.entries;
        entries.g_a = sums.entries.g_a, entries.g_u = sums.entries.g_u, entries.g_z = sums.entries.g_z;
        entries.g_scores = sums.entries.g_scores;
        return entries;
    }

    // Its gradients: of all tensors, and of what a complex one is made of.
    Decoder<real> decoder(real* gradients, real* composed_gradient) const {
        const auto gradient = [&](int64_t i) { return gradients ? gradients + plan.offsets[i] : nullptr; };
        const bool composed = model.projection >= 0;
        return {model, composed ? prepared.decoder : value(model.decoder_weight), value(model.decoder_bias),
                composed ? composed_gradient : gradient(model.decoder_weight), gradient(model.decoder_bias)};
    }

    // Some steps of a row, one after the other, and where labels are among them. `starts`: the states that all layers
    // begin with, (depth, m, D), null for h_0.
    struct Piece {
        int64_t number, first, T, count = 0, *steps, *labels;
        const real* starts;

        // The steps whose outputs of a layer are read.
        Read read(bool last_layer) const { return last_layer ? Read{steps, count} : Read{nullptr, T}; }
    };

    // The steps of a row up to its last label.
    int64_t steps_of(const Part& part, int64_t row) const {
        int64_t T = part.steps;
        while (part.labels && T && part.labels[row * part.steps + T - 1] < 0) T--;
        return T;
    }

    int64_t cut_row(const Part& part, int64_t row, const Memory<real>& memory) const {
        return cut(plan, part.steps, row, steps_of(part, row), memory.firsts);
    }

    // The states that a piece begins with, null for h_0.
    const real* starts_of(const Part& part, int64_t row, int64_t number, const Memory<real>& memory) const {
        if (model.reset && model.reset[row * part.steps + memory.firsts[number]]) return nullptr;
        if (number) return memory.starts + (number - 1) * stack;
        return model.state ? static_cast<const real*>(model.state) + row * stack : nullptr;
    }

    // A piece, without its labels where no scores are asked for.
    Piece piece(const Part& part, int64_t row, int64_t number, bool labelled, const Memory<real>& memory) const {
        const int64_t first = memory.firsts[number], T = memory.firsts[number + 1] - first;
        Piece piece{number, first, T, 0, memory.steps, memory.steps + plan.span,
                    starts_of(part, row, number, memory)};
        for (int64_t t = 0; labelled && t < T; t++) {
            const int64_t label = part.labels ? part.labels[row * part.steps + first + t] : 0;
            if (label >= 0) piece.steps[piece.count] = t, piece.labels[piece.count++] = label;
        }
        return piece;
    }

    // A layer that begins with the states before a piece.
    Level<real> level(int64_t number, const Piece& piece, real* gradients) const {
        Level<real> level(plan, prepared, number, gradients);
        if (piece.starts) level.start = piece.starts + number * state;
        return level;
    }

    void forward(const Chunk& chunk, int64_t row, const Piece& piece, const Memory<real>& memory) const {
        Passage<real>* passages = memory.passages;
        passages[0].entries.of_step = plan.entry[chunk.part] + row * model.batch[chunk.part].steps + piece.first;
        for (int64_t l = 0; l < model.depth; l++) {
            if (l) passages[l].entries.z = passages[l - 1].out;
            layer_forward(level(l, piece, nullptr), passages[l], piece.T, piece.read(l == model.depth - 1), memory,
                          plan.inexact[chunk.number]);
        }
    }

    // The states after a piece, (depth, m, D).
    void keep_ends(const Piece& piece, const Memory<real>& memory, real* to) const {
        for (int64_t l = 0; l < model.depth; l++) {
            std::memcpy(to + l * state, memory.passages[l].h + (piece.T - 1) * state, state * sizeof(real));
            Level<real>(plan, prepared, l, nullptr).snap(to + l * state);
        }
    }

    // One row as far as its scores.
    void read(const Chunk& chunk, int64_t row, const Memory<real>& memory) const {
        const Part& part = model.batch[chunk.part];
        const int64_t pieces = cut_row(part, row, memory);
        real* scores = static_cast<real*>(model.scores) + plan.answer[chunk.part][row] * model.classes;
        for (int64_t number = 0; number < pieces; number++) {
            const Piece some = piece(part, row, number, true, memory);
            forward(chunk, row, some, memory);
            if (number < pieces - 1) keep_ends(some, memory, memory.starts + number * stack);
            else if (model.last) keep_ends(some, memory, static_cast<real*>(model.last) + row * stack);
            decoder(nullptr, nullptr).forward(outputs(memory), some.steps, some.count, some.T, memory);
            for (int64_t i = 0; i < some.count; i++)
                for (int64_t c = 0; c < model.classes; c++) *scores++ = memory.logits[c * some.count + i];
        }
    }

    // One row, forward and back: the pieces before the last are gone through twice, the second time on the way back,
    // unless the next one does not need their states.
    void go_through(const Chunk& chunk, int64_t row, const Gradients<real>& sums, const Memory<real>& memory) const {
        const Part& part = model.batch[chunk.part];
        const int64_t last = cut_row(part, row, memory) - 1;
        for (int64_t number = 0; number < last; number++) {
            if (!starts_of(part, row, number + 1, memory)) continue;
            const Piece some = piece(part, row, number, false, memory);
            forward(chunk, row, some, memory);
            keep_ends(some, memory, memory.starts + number * stack);
        }
        const real* later = model.g_last ? static_cast<const real*>(model.g_last) + row * stack : nullptr;
        real* spare = memory.later;
        for (int64_t number = last; number >= 0; number--) {
            const Piece some = piece(part, row, number, true, memory);
            real* earlier = !some.starts ? nullptr : number ? spare : static_cast<real*>(model.g_state) + row * stack;
            forward(chunk, row, some, memory);
            if (number && earlier) std::memset(earlier, 0, stack * sizeof(real));
            backward(chunk, row, some, sums, later, earlier, memory);
            later = earlier, spare = earlier == memory.later ? memory.earlier : memory.later;
        }
    }

    const real* outputs(const Memory<real>& memory) const { return memory.passages[model.depth - 1].out; }

    // The gradients of a piece's scores, in memory.logits: from its labels, or as the caller has them.
    void score(const Chunk& chunk, int64_t row, const Piece& piece, const Decoder<real>& decoder,
               const Memory<real>& memory) const {
        decoder.forward(outputs(memory), piece.steps, piece.count, piece.T, memory);
        if (!model.g_scores) {
            plan.losses[chunk.number] +=
                judge(plan, memory.logits, memory.judged, piece.labels, piece.count, plan.hits[chunk.number]);
            return;
        }
        const int64_t first = plan.answer[chunk.part][row] + piece.first, classes = model.classes;
        const real* g = static_cast<const real*>(model.g_scores) + first * classes;
        for (int64_t i = 0; i < piece.count; i++)
            for (int64_t c = 0; c < classes; c++) memory.logits[c * piece.count + i] = g[i * classes + c];
    }

    // From the gradients of a piece's scores and of the states after it to the gradients of the states before it, which
    // for h_0 are summed with the tensors.
    void backward(const Chunk& chunk, int64_t row, const Piece& piece, const Gradients<real>& sums, const real* later,
                  real* earlier, const Memory<real>& memory) const {
        const Decoder<real> decoder = this->decoder(tensors_of(sums), sums.decoder);
        score(chunk, row, piece, decoder, memory);
        decoder.backward(outputs(memory), piece.steps, piece.count, piece.T, memory);
        real *above = memory.g, *below = memory.below;
        for (int64_t l = model.depth - 1; l >= 0; l--) {
            Passage<real>& passage = memory.passages[l];
            Entries<real>& entries = passage.entries;
            if (l) {
                entries.g_theta = memory.gradients.g_theta, entries.g_delta = memory.gradients.g_delta;
                entries.g_a = memory.gradients.g_a, entries.g_scores = memory.gradients.g_scores;
                entries.g_z = below;
            }
            Level<real> level = this->level(l, piece, tensors_of(sums));
            if (earlier) level.g_start = earlier + l * state;
            layer_backward(level, passage, piece.T, piece.read(l == model.depth - 1), above,
                           later ? later + l * state : nullptr, memory);
            real* next = above;
            above = below, below = next;
        }
    }

    // The gradients of all chunks, and from them those of all tensors.
    void collect(const Memory<real>& memory) const {
        const Gradients<real> sums = gradients(0);
        if (!plan.chunks) std::memset(sums.tensors, 0, plan.gradient_numbers * sizeof(real));
        for (int64_t chunk = 1; chunk < plan.chunks; chunk++) {
            real *__restrict total = sums.tensors, *__restrict more = gradients(chunk).tensors;
#pragma omp simd
            for (int64_t i = 0; i < plan.gradient_numbers; i++) total[i] += more[i];
        }
        real* g = static_cast<real*>(model.gradient);
        const int64_t first = plan.offsets[model.first_of_rows], last = plan.offsets[model.tensors];
        std::memset(g, 0, first * sizeof(real));
        std::memcpy(g + first, sums.tensors, (last - first) * sizeof(real));
        const Entries<real> entries = first_entries(sums);
        const Level<real> lowest(plan, prepared, 0, g);
        for (int64_t e = 0; e < plan.entries; e++) {
            std::memcpy(memory.free, entries.g_z + e * state, state * sizeof(real));
            skip_adjoint(lowest, entries.z + e * state, memory.free, lowest.g_skip ? lowest.g_skip : memory.free + state,
                         entries.g_z + e * state);
        }
        enter_adjoint(lowest, entries, plan.entries, memory);
        real* g_embedding = g + plan.offsets[model.embedding];
        for (int64_t e = 0; e < plan.entries; e++)
            std::memcpy(g_embedding + plan.tokens[e] * state, entries.g_z + e * state, state * sizeof(real));
        if (model.projection >= 0)
            compose_adjoint(value(model.decoder_weight), value(model.projection), sums.decoder,
                            g + plan.offsets[model.decoder_weight], g + plan.offsets[model.projection],
                            model.classes, D);
        for (int64_t l = 0; l < model.depth; l++) {
            const Level<real> level(plan, prepared, l, g);
            const Layer& layer = level.layer;
            for (int64_t d = 0; level.g_skip && d < D; d++)
                level.g_skip[d] *= level.strength[d] * (1 - level.strength[d]);
            if (level.replaces()) to_unit_adjoint(value(layer.start), level.g_start, model.order, D, real(0));
            if (level.point) to_unit_adjoint(value(layer.point), level.g_point, model.order, D, real(0));
            if (layer.choices) soften_adjoint(level, real(model.temperature), level.g_maps);
        }
    }

    // Where weights do not decay, nothing is added: even 0 · p would change how the rest is rounded.
    template <bool decays>
    void adam(const Weight& weight, const real* __restrict gradient, real scale) const {
        real *__restrict p = static_cast<real*>(weight.value), *__restrict m = static_cast<real*>(weight.mean);
        real* __restrict v = static_cast<real*>(weight.square);
        const double k = ++*weight.steps;
        const real rate = real(model.rate / (1 - std::pow(model.first_decay, k)));
        const real root = real(1 / std::sqrt(1 - std::pow(model.second_decay, k))), epsilon = real(model.epsilon);
        const real first = real(1 - model.first_decay), second = real(1 - model.second_decay);
        const real kept = real(model.second_decay), decay = real(model.weight_decay);
#pragma omp simd
        for (int64_t i = 0; i < weight.size; i++) {
            const real g = decays ? gradient[i] * scale + decay * p[i] : gradient[i] * scale;
            m[i] += first * (g - m[i]);
            v[i] = kept * v[i] + second * g * g;
            p[i] -= rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
        }
    }
};

}  // namespace TARGET
