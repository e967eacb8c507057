// The arguments of every function. Python reads this text: `LAYOUT` compiles its structures and keeps them as a string,
// from which library.py learns the names, types and order of fields and the options of each `enum class`. Every field has
// 64 bits. `wide` means double instead of float; a null pointer is an absent argument or an unwanted result.
#pragma once

#include <cstdint>

static_assert(sizeof(void*) == 8, "Python packs pointers as 64-bit numbers");

using Tensor = int64_t;  // the number of a tensor in a model's list of weights, -1 for one that is absent

// Comments are not part of an argument: the string has declarations alone.
#define LAYOUT(...) __VA_ARGS__ inline constexpr const char* layout_text = #__VA_ARGS__;

LAYOUT(
struct Scan {
    int64_t wide, batch, steps, width, order, planes, columns;  // of a state D and m; of a 1, 2 or m², 1 or D
    const void *a, *u, *h0;
    const bool* reset;
    void* h;
    const void* g_h;
    void *g_a, *g_u, *g_h0;
};

// A router: columns with a single 1 as targets, or maps with rows (K, D, m). Backward where g_h is given.
struct Route {
    int64_t wide, batch, steps, width, places;
    const void* maps;
    const int64_t *targets, *choice;  // (K, D), (batch, steps)
    const void *h0, *start;
    const bool* reset;
    void* h;
    const void* g_h;
    void *reaching, *before;
};

// Resonators, backward where g_y is given; resonate.hpp has the shapes. The batch is in parts.
struct Resonate {
    int64_t wide, batch, rows, steps, width;  // batch: parts of the rows
    int64_t table, keep;                      // moves in the table; whether to keep all states, not two alone
    const void *entries, *turn, *h0;
    const int64_t* which;
    const bool* reset;
    void *y, *h;
    const void *g_y, *g_last;
    void *g_entries, *g_turn, *g_h0;
};

// Heads of a Tracker, `width` of a kind, backward where g_h is given; heads.hpp has the equations. A state has m × m
// numbers (turns) or p (places), which is its size; inputs are (B, T, R, m, N) or (B, T, target, source, N).
struct Heads {
    int64_t wide, batch, steps, width, size, reflections;
    const void *inputs, *h0;
    const bool* reset;
    void *maps, *h;  // maps: of places, the softmax of the inputs
    const void* g_h;
    void *g_inputs, *g_h0;
};

enum class Rotate : int64_t { none, input, state };
enum class Decay : int64_t { softplus, exp, unit, switch_, none, count };  // the last two have no gate
enum class Activation : int64_t { none, boundary, step };
enum class Norm : int64_t { none, complex, layer };
enum class Reading : int64_t { state, phasor, angle };

// A tensor of a model in training, with the two moments of Adam and the number of its steps.
struct Weight {
    int64_t size, trained;  // a tensor that is not trained keeps its value
    void *value, *mean, *square;
    float* steps;
};

// A layer of a model.
struct Layer {
    int64_t angles, gates, angle_inputs;  // outputs of the projections, together; inputs of an angle
    int64_t bounded_angle;
    Rotate rotate;
    Decay decay;
    Activation activation;
    Norm norm;
    int64_t places, choices, by_token, rank;  // of a router and its maps, 0 elsewhere; of a coupling
    Tensor angle_weight, angle_bias, gate_weight, gate_bias, skip, recall, parts, start, point;
    Tensor norm_weight, norm_bias, coupling_u, coupling_v, maps, keys_weight, keys_bias;
};

// Rows of one padded length. A negative label stands for none; without labels, every step is scored.
struct Part {
    int64_t rows, steps;
    const int64_t *tokens, *labels;  // (rows, steps)
};

// A model and the task at hand: the scores of rows, their adjoint, or a step of training.
struct Model {
    int64_t wide, order, width, depth, vocabulary, classes, tensors, first_of_rows, parts;
    const Layer* layers;
    const Weight* weights;
    const Part* batch;
    Reading reading;
    Tensor embedding, decoder_weight, decoder_bias, projection;  // projection: of a complex decoder
    double temperature;                                          // of routers; 0: hard maps
    int64_t whole, span;   // a row of more steps than `whole` goes in pieces of `span`
    void* gradient;        // of all weights, one after the other; rows add to those from first_of_rows on
    void* scores;          // (labels, classes); null in an adjoint or a step
    const void* state;     // (rows, depth, m, D), where rows begin; null: with h_0. For a batch of one part, as below
    const bool* reset;     // (rows, steps), where a sequence begins anew with h_0
    void* last;            // (rows, depth, m, D), the states after each row
    const void *g_scores, *g_last;  // of an adjoint
    void* g_state;                  // zeroed
    int64_t focal;
    double focal_gamma, focal_alpha;
    double rate, first_decay, second_decay, epsilon;  // Adam's
    double weight_decay, most;                        // Adam's; gradients above `most` are scaled to it
    double loss, norm;                                // results of a step
    int64_t hits, taken;                              // taken: the step was done, as loss and norm are finite
};

// An automaton and a sequence. rows[row + token] is where the next state's row begins, answers the same.
struct Table {
    int64_t wide, length, symbols, row;  // wide: tokens are int64, not uint8; row: of the start, then of the end
    const void* sequence;               // (length)
    const uint32_t* rows;               // (states, symbols)
    const uint16_t* answers;            // (states, symbols)
    uint16_t* out;                      // (length), null where only the end counts
};

// Labelled rows, their common prefixes once. Nodes are in preorder: a parent stands before its children, and a
// subtree's nodes follow each other up to `end`. The labels of a node are those from first[node] to first[node + 1].
struct Tree {
    int64_t nodes, symbols, classes;
    const int32_t *parent, *token, *end;     // (nodes)
    const int32_t *first, *label, *weight;  // (nodes + 1), (labels), (labels): how often each
};

// From a tree to a machine.
struct Merge {
    const Tree* tree;
    int64_t most;         // states
    int64_t breadth;      // blue nodes that are looked at before each step
    double conflict;      // bits that a contradicted label costs
    double floor;         // a merge that has gained less than this is abandoned
    const double* agree;  // (classes): bits of an answer
    int32_t* table;       // (most, symbols), written
};

// A machine's table, made to fit a tree better.
struct Polish {
    const Tree* tree;
    int64_t states, room;      // in the table, and at most
    int64_t split, work;       // split: try copies of states; work: the most nodes to visit
    const double* miss_bits;   // (labels' weight + 1)
    const double* state_bits;  // (3, room + 1): of all entries; of own targets; of each entry elsewhere
    const double* row_bits;    // (symbols): to say which entries of a state lead elsewhere
    int32_t* table;            // (room, symbols), replaced
};
)

constexpr int64_t TILE = 16;  // steps whose gates are computed together: shared ones fill a vector

struct Plan;  // of plan.hpp
struct Chunks;
struct Subtrees;

// The functions for one kind of processor: rows, or chunks of rows, from `first` up to `last`.
struct Functions {
    void (*scan)(const Scan&, void* memory, int64_t first, int64_t last);  // backward where g_h is given
    void (*route)(const Route&, void* memory, int64_t first, int64_t last);
    void (*resonate)(const Resonate&, void* memory, int64_t first, int64_t last);  // backward where g_y is given
    void (*turns)(const Heads&, void* memory, int64_t first, int64_t last);
    void (*places)(const Heads&, void* memory, int64_t first, int64_t last);
    void (*prepare)(const Plan&, void* memory);
    void (*go_through)(const Chunks&, void* memory, int64_t first, int64_t last);
    void (*descend)(const Plan&, void* memory);
    void (*every)(const Subtrees&, void* memory, int64_t first, int64_t last);
};
