// What a training step works with, and where it lies in memory. See step.hpp for the names.
#pragma once

#include "layout.hpp"

// Inlined always, for it is compiled for several kinds of processors.
#define PLAN inline __attribute__((always_inline))

constexpr int64_t FEWEST_ROWS = 16, MOST_CHUNKS = 64;  // of a part of a batch, whatever the threads

// Hands out memory, in pieces of whole cache lines; from nothing, it only counts.
template <typename real>
struct Room {
    real* base;
    int64_t used = 0;

    PLAN real* take(int64_t numbers) {
        real* piece = base ? base + used : nullptr;
        used += (numbers + 15) / 16 * 16;
        return piece;
    }

    template <typename Other>
    PLAN Other* take_as(int64_t count) {
        return reinterpret_cast<Other*>(take((count * sizeof(Other) + sizeof(real) - 1) / sizeof(real)));
    }
};

// The step of one model.
struct Plan {
    Training* model;
    int64_t entries, labelled, longest;  // different tokens of the batch, labels, steps of a row
    const int32_t* tokens;               // (entries)
    const int32_t* const* entry;         // of each part (rows, steps)
    const int64_t* offsets;              // (tensors + 1), of each tensor in a gradient
    int64_t chunks, gradient_numbers;
    void *prepared, *gradients;          // gradients: (chunks, gradient_numbers)
    double* losses;                      // (chunks)
    int64_t* hits;                       // (chunks)
};

// Rows that one thread goes through, and whose gradients it sums.
struct Chunk {
    const Plan* plan;
    int64_t part, first, last, number;  // number: of the chunks of its model
};

struct Chunks {
    int64_t batch, steps, width;  // how many, of which size: by that they are dealt out
    const Chunk* each;
};

// The sizes that follow from a layer's options.
struct Extents {
    int64_t D, state, extent, transition;  // of a state 2D, of a gate 1 or D, of a: 1 or 2 planes of an extent

    PLAN Extents(const Training& model, const Layer& layer)
        : D(model.width),
          state(2 * D),
          extent(layer.angles <= 1 && layer.gates <= 1 ? 1 : D),
          transition(extent * (layer.rotate == STATE ? 2 : 1)) {}
};

// The inputs of some steps of a layer, and what they say about its recurrence: of every step of a row, or in the
// first layer of every token, which is an entry for all steps that read it.
template <typename real>
struct Entries {
    real *z, *theta, *delta, *a, *u;          // (entries, …)
    real *g_z, *g_theta, *g_delta, *g_a, *g_u;
    const int32_t* of_step = nullptr;         // null: step t has entry t

    PLAN int64_t operator[](int64_t t) const { return of_step ? of_step[t] : t; }
};

// What follows from a model's tensors alone, before any row.
template <typename real>
struct Prepared {
    real *start, *strength;  // of all layers (depth, 2D), (depth, D)
    Entries<real> entries;   // of the first layer

    PLAN Prepared(const Training& model, int64_t count, Room<real>& room) {
        const Layer& layer = model.layers[0];
        const Extents size(model, layer);
        start = room.take(model.depth * size.state);
        strength = room.take(model.depth * size.D);
        entries.z = room.take(count * size.state);
        entries.theta = room.take(count * layer.angles);
        entries.delta = room.take(count * layer.gates);
        entries.g_theta = room.take(count * layer.angles);
        entries.g_delta = room.take(count * layer.gates);
        entries.a = room.take(count * size.transition);
        entries.u = room.take(count * size.state);
        entries.g_z = entries.g_a = entries.g_u = nullptr;  // of each chunk
    }
};

// What rows add to: the gradients of tensors, from first_of_rows on, and those of the first layer's entries.
template <typename real>
struct Gradients {
    real *tensors, *g_a, *g_u, *g_z;

    PLAN Gradients(const Training& model, int64_t numbers, int64_t count, Room<real>& room) {
        const Extents size(model, model.layers[0]);
        tensors = room.take(numbers);
        g_a = room.take(count * size.transition);
        g_u = room.take(count * size.state);
        g_z = room.take(count * size.state);
    }
};

// One row in one layer: what the adjoint needs again.
template <typename real>
struct Passage {
    Entries<real> entries;
    real *h, *gate, *out, *over;  // states, σ of them, outputs; 1/n and 1/m of the norm: (T, 2, D)
    bool bounded;                 // whether a state or an output was

    PLAN Passage() = default;
    PLAN void lay_out(const Training& model, int64_t number, int64_t T, Room<real>& room) {
        const Layer& layer = model.layers[number];
        const Extents size(model, layer);
        for (real** each : {&h, &gate, &out, &over}) *each = room.take(T * size.state);
        if (!number) return;
        entries.theta = room.take(T * layer.angles);
        entries.delta = room.take(T * layer.gates);
        entries.a = room.take(T * size.transition);
        entries.u = room.take(T * size.state);
    }
};

// What a thread needs for one row at a time.
template <typename real>
struct Memory {
    real *g, *mu, *below;             // (T, 2, D): gradients of outputs, of states, of inputs
    real *g_theta, *g_delta, *g_a;    // (T, …), of any layer
    real *logits, *judged;            // (classes, T), (3, T)
    real *features, *scratch;         // (3, 2, D); of `Scratch`
    int64_t* steps;                   // (2, T): where labels are, and they
    Passage<real>* passages;          // (depth)

    PLAN Memory(const Training& model, int64_t T, Room<real>& room) {
        const int64_t D = model.width;
        for (real** each : {&g, &mu, &below}) *each = room.take(T * 2 * D);
        for (real** each : {&g_theta, &g_delta}) *each = room.take(T * D);
        g_a = room.take(T * 2 * D);
        logits = room.take(T * model.classes);
        judged = room.take(T * 3);
        features = room.take(6 * D);
        scratch = room.take(scratch_vectors(1) * D);
        steps = room.template take_as<int64_t>(2 * T);
        passages = room.template take_as<Passage<real>>(model.depth);
    }
};
