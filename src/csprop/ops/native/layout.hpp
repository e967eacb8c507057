// The arguments of every function, mirrored by layout.py: description.hpp lists them for the comparison of
// names and types. `wide` means double in place of float; a null pointer is something absent, or not asked for.
#pragma once

#include <cstdint>

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
    int64_t wide, batch, steps, width, places, columns;  // of a group m; of turns 0, 1 or D
    const void* maps;
    const int64_t *targets, *choice;                     // (K, D), (batch, steps)
    const void *turns, *h0, *start;
    const bool* reset;
    void* h;
    const void* g_h;
    void *reaching, *before;
};

// Resonators, backward where g_y is given. The batch is in parts: with an index, each has a table of gradients.
struct Resonate {
    int64_t wide, batch, rows, steps, width, table, keep;  // batch: parts; keep: all states, not the last two alone
    const void *entries, *turn, *h0;
    const int64_t* index;
    const bool* reset;
    void *y, *h;
    const void *g_y, *g_last;
    void *g_entries, *g_turn, *g_h0;
};

enum Rotate : int64_t { NONE, INPUT, STATE };
enum Decay : int64_t { SOFTPLUS, EXP, UNIT, RESET, SWITCH, KEEP, COUNT };  // the last two have no gate
enum Activation : int64_t { LINEAR, BOUNDARY, STEP };
enum Norm : int64_t { WITHOUT, COMPLEX, LAYER, ROOT };
enum GateInput : int64_t { OF_INPUT, OF_ENTERING, OF_STATE };
enum Reading : int64_t { STATES, PHASORS, ANGLES };

struct Block {
    int64_t wide, batch, steps, width, groups, angles, gates;
    int64_t rotate, bounded_angle, decay, silu, norm, keep;  // keep: all states, not the last alone
    int64_t angle_inputs, gate_inputs;                       // 2D, or D where the angle sees Re z alone
    const void *z, *coupled, *skip, *h0, *start;             // skip: g itself, before σ
    const bool* reset;
    // The projections of gates that the channels share are done here, others by the caller.
    const void *angle_weight, *angle_bias, *gate_weight, *gate_bias;
    void *theta, *delta, *out, *h;
    const void *g_out, *g_h;
    void *g_z, *g_theta, *g_delta, *g_coupled, *g_h0;
    void *g_skip, *g_start, *g_angle_weight, *g_angle_bias, *g_gate_weight, *g_gate_bias;
};

// The parameters, whose gradients are computed a row of the batch each and then summed.
struct Parameter {
    void* Block::*gradient;
    int64_t size;  // of one model's; 0 where it is not the kernel's to compute
};

struct Parameters {
    Parameter each[6];
    explicit Parameters(const Block& block)
        : each{{&Block::g_skip, block.width},
               {&Block::g_start, 2 * block.width},
               {&Block::g_angle_weight, block.angles == 1 ? block.angle_inputs : 0},
               {&Block::g_angle_bias, block.angles == 1},
               {&Block::g_gate_weight, block.gates == 1 ? block.gate_inputs : 0},
               {&Block::g_gate_bias, block.gates == 1}} {}
};

// The fields of one of a block's two projections, y = W z + b, by name.
struct ProjectionFields {
    int64_t Block::*outputs, Block::*inputs;
    const void *Block::*weight, *Block::*bias;
    void *Block::*result, *Block::*g_result, *Block::*g_weight, *Block::*g_bias;
};

constexpr ProjectionFields PROJECTIONS[] = {
    {&Block::angles, &Block::angle_inputs, &Block::angle_weight, &Block::angle_bias, &Block::theta,
     &Block::g_theta, &Block::g_angle_weight, &Block::g_angle_bias},
    {&Block::gates, &Block::gate_inputs, &Block::gate_weight, &Block::gate_bias, &Block::delta,
     &Block::g_delta, &Block::g_gate_weight, &Block::g_gate_bias},
};

// A whole model at one token. The blocks are of one row and one step; h0 and h are the state, in place.
struct Stream {
    int64_t wide, depth, width, classes, unit_features;  // unit_features: the decoder reads h / |h|
    const void* embedding;                               // (vocabulary, 2, D)
    Block* blocks;
    const void *decoder_weight, *decoder_bias;           // (classes, 2, D), (classes)
    void *logits, *scratch;                              // (classes), (scratch_vectors(1), D) zeroed
};

// Layers one after the other, alike but for their tensors. Only the last has a g_out, only the first a g_z;
// an out that is not needed later is null.
struct Stack {
    int64_t wide, batch, steps, width, depth;
    const Block* blocks;
};

// A tensor of a model in training, with the two moments of Adam and the number of its steps.
struct Weight {
    int64_t size, trained;  // one that is not trained keeps its value
    void *value, *mean, *square;
    float* steps;
};

// A layer of a model in training. Its tensors are numbers in the list of weights, -1 for one that is absent.
struct Layer {
    int64_t angles, gates, angle_inputs;  // outputs of the projections, together; inputs of an angle
    int64_t rotate, bounded_angle, decay, activation, norm;
    int64_t places, choices, by_token, rank;  // of a router and its maps, 0 elsewhere; of a coupling
    int64_t angle_weight, angle_bias, gate_weight, gate_bias, skip, recall, start, point;
    int64_t norm_weight, norm_bias, coupling_u, coupling_v, maps, keys_weight, keys_bias;
    int64_t direction;                              // angles are directions of two numbers each
    int64_t released, summed, gate_input, cumulative;  // parts of the authors' code: released.hpp
    int64_t map_weight, map_bias, entrance_weight, entrance_bias;
};

// Rows of one padded length; a label below 0 is none.
struct Part {
    int64_t rows, steps;
    const int64_t *tokens, *labels;  // (rows, steps)
};

// A model in training, and one step of it.
struct Training {
    int64_t wide, order, width, depth, vocabulary, classes, tensors, first_of_rows, parts;
    const Layer* layers;
    const Weight* weights;
    const Part* batch;
    void* gradient;  // of all weights, one after the other; rows add to those from first_of_rows on
    int64_t reading, embedding, decoder_weight, decoder_bias, projection;  // projection: of a complex decoder
    int64_t narrow, widen_tanh, widen_weight, widen_bias;  // narrow: numbers of a token, if its embedding is widened
    int64_t focal;
    double focal_gamma, focal_alpha, temperature;                          // temperature: of routers; 0: hard maps
    double rate, first_decay, second_decay, epsilon;        // Adam's
    double weight_decay, most;                              // Adam's; gradients above `most` are scaled to it
    double loss, norm;                                      // found
    int64_t hits, taken;                                    // found; whether the step was taken
    int64_t whole, span;                                    // a row of more steps than `whole` goes in pieces of `span`
    void* scores;                                           // (labels, classes), or null where a step is taken
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
    double floor;         // a merger that has gained less than this is given up
    const double* agree;  // (classes): bits of an answer
    int32_t* table;       // (most, symbols), written
};

// A machine's table, made to fit a tree better.
struct Polish {
    const Tree* tree;
    int64_t states, room;      // in the table, and at most
    int64_t split, work;       // whether to try copies of states; how many nodes may be walked
    const double* miss_bits;   // (labels' weight + 1)
    const double* state_bits;  // (3, room + 1): of all entries; of own targets; of each entry elsewhere
    const double* row_bits;    // (symbols): of which entries of a state lead elsewhere
    int32_t* table;            // (room, symbols), replaced
};

constexpr int64_t TILE = 16;  // steps whose gates are computed together, so that shared ones fill a vector

// What one thread needs beside its arguments, zeroed, in vectors of D numbers.
constexpr int64_t scratch_vectors(int64_t depth) { return 12 + 18 * TILE + 3 * depth; }

constexpr int64_t STRETCH = 8 * TILE;  // steps that a layer of a wave goes at a time
constexpr int64_t AFLOAT = 4;          // stretches that a layer may be ahead of the next

// One row of a stack, its layers one behind the other; wave.hpp says who goes when.
struct Wave {
    const Stack* stack;
    int64_t row, stretches;
    bool backward;
    void *carried, *between;  // (depth, 3, D), (depth, AFLOAT · STRETCH, 2, D)
};

struct Plan;  // of plan.hpp
struct Chunks;
struct Subtrees;

// The functions for one kind of processor: rows, or chunks of rows, from `first` up to `last`.
struct Functions {
    void (*stack)(const Stack&, void* memory, int64_t first, int64_t last);  // backward where g_out is given
    void (*scan)(const Scan&, void* memory, int64_t first, int64_t last);    // backward where g_h is given
    void (*stretch)(const Wave&, void* memory, int64_t layer, int64_t number);
    void (*stream)(const Stream&, int64_t token);
    void (*route)(const Route&, void* memory, int64_t first, int64_t last);
    void (*resonate)(const Resonate&, void* memory, int64_t first, int64_t last);  // backward where g_y is given
    void (*prepare)(const Plan&, void* memory);
    void (*go_through)(const Chunks&, void* memory, int64_t first, int64_t last);
    void (*descend)(const Plan&, void* memory);
    void (*every)(const Subtrees&, void* memory, int64_t first, int64_t last);
};
