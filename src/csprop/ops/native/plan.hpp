// The plan of a call on a model, and the layout of its memory. step.hpp has the names.
#pragma once

#include "compilers.hpp"
#include "layout.hpp"

// Always inlined, because it is compiled for several processors.
#define PLAN INLINE

constexpr int64_t FEWEST_STEPS = 256, MOST_CHUNKS = 64;  // of a chunk, and of a batch's part, whatever the threads
constexpr int64_t BLOCK = 16, FEWEST_PREFIXES = 256;    // of every.hpp, whatever the threads
// Of the exponential of a matrix: terms of its series, squarings, and matrices that it needs.
constexpr int64_t TERMS = 18, SQUARINGS = 16, ROTATION_PIECES = TERMS + SQUARINGS + 6;

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
    Model* model;
    int64_t entries, labelled, longest;  // different tokens of the batch, labels, steps of a row
    int64_t span, pieces;                // steps of a piece of a row, and the most pieces of a row
    const int32_t* tokens;               // (entries)
    const int32_t* const* entry;         // of each part (rows, steps)
    const int64_t* const* answer;        // of each part (rows), the number of its first label among all
    const int64_t* offsets;              // (tensors + 1), of each tensor in a gradient
    int64_t chunks, gradient_numbers;
    void *prepared, *gradients;          // gradients: (chunks, gradient_numbers)
    double* losses;                      // (chunks)
    int64_t *hits, *inexact;             // (chunks); inexact: counts that their type of numbers does not hold
};

// Cuts the first T steps of a row into pieces of at most a span, a new one where a sequence begins anew. Gives their
// number; `firsts` receives the first step of each, and T.
PLAN int64_t cut(const Plan& plan, int64_t steps, int64_t row, int64_t T, int64_t* firsts) {
    const bool* reset = plan.model->reset ? plan.model->reset + row * steps : nullptr;
    int64_t pieces = 0;
    for (int64_t t = 0; t < T; pieces++) {
        const int64_t end = T - t < plan.span ? T : t + plan.span;
        if (firsts) firsts[pieces] = t;
        for (t = reset ? t + 1 : end; t < end && !reset[t]; t++) {}
    }
    if (firsts) firsts[pieces] = T;
    return pieces;
}

// Rows that one thread goes through, and whose gradients it sums.
struct Chunk {
    const Plan* plan;
    int64_t part, first, last, number;  // number: of the chunks of its model
};

struct Chunks {
    int64_t batch, steps, width;  // sizes, by which threads share the work
    const Chunk* each;
};

// All sequences of one length, by subtrees of the tree of their prefixes. See every.hpp.
struct Subtrees {
    int64_t batch, steps, width;             // sizes, by which threads share the work
    const Plan* plan;
    int64_t symbols, length, top, prefixes;  // subtrees begin with prefixes of the length `top`; how many there are
    void* scores;                            // (symbols^length, classes)
};

// The sizes that follow from a layer's options.
struct Extents {
    int64_t D, m, state;      // channels, planes, numbers of a state
    int64_t turns, extent;    // angles of a channel; 1 where all channels share gates and angles, else D
    int64_t planes, numbers;  // of a: a real, a complex number or a matrix; numbers of it

    PLAN Extents(const Model& model, const Layer& layer)
        : D(model.width),
          m(model.order),
          state(m * D),
          turns(m * (m - 1) / 2),
          extent(layer.angles <= turns && layer.gates <= 1 ? 1 : D),
          planes(layer.rotate != Rotate::state ? 1 : m == 2 ? 2 : m * m),
          numbers(planes * extent) {}
};

// The inputs of some steps of a layer, and the a and u that follow from them. There is one entry for each step of a
// row; in the first layer there is one for each token, shared by all steps that read it.
template <typename real>
struct Entries {
    real *z, *theta, *delta, *a, *u, *scores;  // (entries, …); scores: of a router's maps
    real *g_z, *g_theta, *g_delta, *g_a, *g_u, *g_scores;
    int64_t* choice;                           // the best of the scores
    const int32_t* of_step;                    // null: step t has entry t

    PLAN int64_t operator[](int64_t t) const { return of_step ? of_step[t] : t; }

    // The values computed from z.
    PLAN void lay_out(const Model& model, const Layer& layer, int64_t count, Room<real>& room) {
        const Extents size(model, layer);
        theta = room.take(count * layer.angles);
        delta = room.take(count * layer.gates);
        a = room.take(count * size.numbers);
        u = room.take(count * size.state);
        scores = room.take(count * layer.choices);
        choice = room.template take_as<int64_t>(layer.choices ? count : 0);
    }

    PLAN void lay_out_gradients(const Model& model, const Layer& layer, int64_t count, Room<real>& room) {
        const Extents size(model, layer);
        g_a = room.take(count * size.numbers);
        g_scores = room.take(count * layer.choices);
    }
};

// Values that depend on the model's tensors alone, computed before any row.
template <typename real>
struct Prepared {
    real *start, *strength, *point;  // of all layers (depth, m, D), (depth, D), (depth, m, D)
    real *maps, *columns, *decoder;  // of all routers; (classes, m, D) of a complex decoder
    int64_t* targets;                // of all routers (choices, D), where maps are hard
    Entries<real> entries{};         // of the first layer

    PLAN Prepared(const Model& model, int64_t count, Room<real>& room) {
        const Extents size(model, model.layers[0]);
        start = room.take(model.depth * size.state);
        strength = room.take(model.depth * size.D);
        point = room.take(model.depth * size.state);
        int64_t mapped = 0, choices = 0;
        for (const Layer* layer = model.layers; layer < model.layers + model.depth; layer++)
            mapped += layer->choices * size.D * layer->places, choices += layer->choices;
        maps = room.take(mapped);
        columns = room.take(mapped);
        targets = room.template take_as<int64_t>(choices * size.D);
        decoder = room.take(model.projection < 0 ? 0 : model.classes * size.state);
        entries.z = room.take(count * size.state);
        entries.lay_out(model, model.layers[0], count, room);
        entries.g_theta = room.take(count * model.layers[0].angles);
        entries.g_delta = room.take(count * model.layers[0].gates);
    }
};

// The gradients that rows add to: of tensors from first_of_rows on, of the parts of a complex decoder, and of the first
// layer's entries.
template <typename real>
struct Gradients {
    real *tensors, *decoder;
    Entries<real> entries{};

    PLAN Gradients(const Model& model, int64_t numbers, int64_t count, Room<real>& room) {
        const Extents size(model, model.layers[0]);
        tensors = room.take(numbers);
        decoder = room.take(model.projection < 0 ? 0 : model.classes * size.state);
        entries.lay_out_gradients(model, model.layers[0], count, room);
        entries.g_u = room.take(count * size.state);
        entries.g_z = room.take(count * size.state);
    }
};

// One row in one layer: the values that the adjoint reuses.
template <typename real>
struct Passage {
    Entries<real> entries;
    real *h, *gate, *out, *over;  // states; σ of them, or they before it; outputs; for the norm: (T, m, D)
    bool bounded;                 // whether a state or an output was
    const int32_t* parent;        // null: step t follows step t − 1; else its state is made from parents[parent[t]]
    const real* parents;          // (…, m, D)

    // The state before step t.
    PLAN const real* before(int64_t t, const real* start, int64_t state) const {
        return parent ? parents + parent[t] * state : t ? h + (t - 1) * state : start;
    }

    PLAN void lay_out(const Model& model, int64_t number, int64_t T, Room<real>& room) {
        const Extents size(model, model.layers[number]);
        for (real** each : {&h, &gate, &out, &over}) *each = room.take(T * size.state);
        if (number) entries.lay_out(model, model.layers[number], T, room);
    }
};

// The gates of a tile of entries. Complex numbers are two planes.
template <typename real>
struct Gating {
    real *a, *b, *g_a, *g_b;                              // (2, TILE, extent)
    real *theta, *delta, *alpha, *gamma, *cosine, *sine;  // (TILE, extent)

    PLAN void lay_out(int64_t D, Room<real>& room) {
        for (real** each : {&a, &b, &g_a, &g_b}) *each = room.take(2 * TILE * D);
        for (real** each : {&theta, &delta, &alpha, &gamma, &cosine, &sine}) *each = room.take(TILE * D);
    }
};

// The memory of a thread for one row at a time.
template <typename real>
struct Memory {
    real *g, *mu, *below;       // (T, m, D): gradients of outputs, of states, of inputs
    Entries<real> gradients{};  // of the steps of any layer
    real *logits, *judged;      // (classes, T), (3, T)
    real *features;             // (T, m, D), what the decoder reads
    real *free, *tile;          // (6, m, D), (2, TILE, m, D)
    real *coupled;              // of `Coupled`
    Gating<real> gating{};
    double* rotation;           // of rotations of SO(m)
    int64_t *steps, *firsts;    // (2, T): where labels are, and they; (pieces + 1), of `cut`
    real *starts;               // the states that pieces after the first begin with, (pieces − 1, depth, m, D)
    real *later, *earlier;      // (depth, m, D): the gradients of states after a piece, and before it
    Passage<real>* passages;    // (depth)

    // T: steps of a piece.
    PLAN Memory(const Model& model, int64_t T, int64_t pieces, Room<real>& room) {
        const Extents size(model, model.layers[0]);
        int64_t angles = 0, gates = 0, numbers = 0, choices = 0, rank = 0;
        for (const Layer* layer = model.layers; layer < model.layers + model.depth; layer++) {
            const Extents each(model, *layer);
            angles = layer->angles > angles ? layer->angles : angles;
            gates = layer->gates > gates ? layer->gates : gates;
            numbers = each.numbers > numbers ? each.numbers : numbers;
            choices = layer->choices > choices ? layer->choices : choices;
            rank = layer->rank > rank ? layer->rank : rank;
        }
        for (real** each : {&g, &mu, &below}) *each = room.take(T * size.state);
        gradients.g_theta = room.take(T * angles);
        gradients.g_delta = room.take(T * gates);
        gradients.g_a = room.take(T * numbers);
        gradients.g_scores = room.take(T * choices);
        logits = room.take(T * model.classes);
        judged = room.take(T * 3);
        features = room.take(T * size.state);
        free = room.take(6 * size.state + choices);
        coupled = room.take(rank * (4 * size.D + 2 * T * size.m));
        tile = room.take(choices ? 2 * TILE * size.state : 0);
        gating.lay_out(size.D, room);
        rotation = room.template take_as<double>(size.m > 2 ? ROTATION_PIECES * size.m * size.m * size.D : 0);
        steps = room.template take_as<int64_t>(2 * T);
        firsts = room.template take_as<int64_t>(pieces + 1);
        starts = room.take((pieces - 1) * model.depth * size.state);
        for (real** each : {&later, &earlier}) *each = room.take(pieces > 1 ? model.depth * size.state : 0);
        passages = room.template take_as<Passage<real>>(model.depth);
    }
};

// The states of every.hpp's walk, of one thread.
template <typename real>
struct Kept {
    const int64_t depth, block;  // numbers of the states of a layer
    real* of_lengths;
    int32_t *parent, *token;     // (BLOCK): where in the block before it, and by which token

    PLAN Kept(const Model& model, int64_t length, Room<real>& room)
        : depth(model.depth), block(BLOCK * model.order * model.width) {
        of_lengths = room.take(length * depth * block);
        parent = room.template take_as<int32_t>(BLOCK);
        token = room.template take_as<int32_t>(BLOCK);
    }

    // The states of a layer after t tokens, (BLOCK, m, D).
    PLAN real* states(int64_t t, int64_t layer) const { return of_lengths + ((t - 1) * depth + layer) * block; }
};
