// The structures of layout.hpp as text, for Python to compare its own account with before it calls anything.
#pragma once

#include <cstddef>
#include <string>

#include "layout.hpp"

template <typename Type> constexpr const char* type_name = nullptr;
template <> inline constexpr const char* type_name<int64_t> = "int64";
template <> inline constexpr const char* type_name<const void*> = "const void*";
template <> inline constexpr const char* type_name<void*> = "void*";
template <> inline constexpr const char* type_name<const bool*> = "const bool*";
template <> inline constexpr const char* type_name<const int64_t*> = "const int64*";
template <> inline constexpr const char* type_name<const Block*> = "const Block*";
template <> inline constexpr const char* type_name<Block*> = "Block*";
template <> inline constexpr const char* type_name<const uint32_t*> = "const uint32*";
template <> inline constexpr const char* type_name<const uint16_t*> = "const uint16*";
template <> inline constexpr const char* type_name<uint16_t*> = "uint16*";
template <> inline constexpr const char* type_name<const int32_t*> = "const int32*";
template <> inline constexpr const char* type_name<int32_t*> = "int32*";
template <> inline constexpr const char* type_name<double> = "double";
template <> inline constexpr const char* type_name<const double*> = "const double*";
template <> inline constexpr const char* type_name<const Tree*> = "const Tree*";
template <> inline constexpr const char* type_name<const Layer*> = "const Layer*";
template <> inline constexpr const char* type_name<const Weight*> = "const Weight*";
template <> inline constexpr const char* type_name<const Part*> = "const Part*";
template <> inline constexpr const char* type_name<float*> = "float*";

struct Field {
    const char *type, *name;
    size_t offset;
};

// "Name: type field, type field, …". Python packs 64-bit numbers one after the other, so that a field that
// lies elsewhere, or is missing from the list, is written down as a gap.
template <typename Struct, size_t count>
std::string described(const char* name, const Field (&fields)[count]) {
    std::string text = std::string(name) + ":";
    for (size_t i = 0; i < count; i++) {
        if (fields[i].offset != i * sizeof(int64_t)) text += " (gap)";
        text += std::string(i ? ", " : " ") + fields[i].type + " " + fields[i].name;
    }
    return text + (sizeof(Struct) == count * sizeof(int64_t) ? "" : " (gap)") + "\n";
}

// The name is written once, for the text and for the compiler, so that the two cannot differ.
#define FIELD(name) {type_name<decltype(Struct::name)>, #name, offsetof(Struct, name)}

inline std::string described_scan() {
    using Struct = Scan;
    return described<Struct>("Scan", {
        FIELD(wide), FIELD(batch), FIELD(steps), FIELD(width), FIELD(order), FIELD(planes), FIELD(columns),
        FIELD(a), FIELD(u), FIELD(h0), FIELD(reset), FIELD(h), FIELD(g_h), FIELD(g_a), FIELD(g_u), FIELD(g_h0)});
}

inline std::string described_route() {
    using Struct = Route;
    return described<Struct>("Route", {
        FIELD(wide), FIELD(batch), FIELD(steps), FIELD(width), FIELD(places), FIELD(columns), FIELD(maps),
        FIELD(targets), FIELD(choice), FIELD(turns), FIELD(h0), FIELD(start), FIELD(reset), FIELD(h), FIELD(g_h),
        FIELD(reaching), FIELD(before)});
}

inline std::string described_resonate() {
    using Struct = Resonate;
    return described<Struct>("Resonate", {
        FIELD(wide), FIELD(batch), FIELD(rows), FIELD(steps), FIELD(width), FIELD(table), FIELD(keep), FIELD(entries),
        FIELD(turn), FIELD(h0), FIELD(index), FIELD(reset), FIELD(y), FIELD(h), FIELD(g_y), FIELD(g_last),
        FIELD(g_entries), FIELD(g_turn), FIELD(g_h0)});
}

inline std::string described_block() {
    using Struct = Block;
    return described<Struct>("Block", {
        FIELD(wide), FIELD(batch), FIELD(steps), FIELD(width), FIELD(groups), FIELD(angles), FIELD(gates),
        FIELD(rotate), FIELD(bounded_angle), FIELD(decay), FIELD(silu), FIELD(norm), FIELD(keep),
        FIELD(angle_inputs), FIELD(gate_inputs), FIELD(z), FIELD(coupled), FIELD(skip), FIELD(h0), FIELD(start),
        FIELD(reset), FIELD(angle_weight), FIELD(angle_bias), FIELD(gate_weight), FIELD(gate_bias),
        FIELD(theta), FIELD(delta), FIELD(out), FIELD(h), FIELD(g_out), FIELD(g_h), FIELD(g_z), FIELD(g_theta),
        FIELD(g_delta), FIELD(g_coupled), FIELD(g_h0), FIELD(g_skip), FIELD(g_start), FIELD(g_angle_weight),
        FIELD(g_angle_bias), FIELD(g_gate_weight), FIELD(g_gate_bias)});
}

inline std::string described_stack() {
    using Struct = Stack;
    return described<Struct>("Stack", {
        FIELD(wide), FIELD(batch), FIELD(steps), FIELD(width), FIELD(depth), FIELD(blocks)});
}

inline std::string described_stream() {
    using Struct = Stream;
    return described<Struct>("Stream", {
        FIELD(wide), FIELD(depth), FIELD(width), FIELD(classes), FIELD(unit_features), FIELD(embedding),
        FIELD(blocks), FIELD(decoder_weight), FIELD(decoder_bias), FIELD(logits), FIELD(scratch)});
}

inline std::string described_weight() {
    using Struct = Weight;
    return described<Struct>("Weight", {
        FIELD(size), FIELD(trained), FIELD(value), FIELD(mean), FIELD(square), FIELD(steps)});
}

inline std::string described_layer() {
    using Struct = Layer;
    return described<Struct>("Layer", {
        FIELD(angles), FIELD(gates), FIELD(angle_inputs), FIELD(rotate), FIELD(bounded_angle), FIELD(decay),
        FIELD(activation), FIELD(norm), FIELD(places), FIELD(choices), FIELD(by_token), FIELD(rank),
        FIELD(angle_weight), FIELD(angle_bias), FIELD(gate_weight), FIELD(gate_bias), FIELD(skip), FIELD(recall),
        FIELD(start), FIELD(point), FIELD(norm_weight), FIELD(norm_bias), FIELD(coupling_u), FIELD(coupling_v),
        FIELD(maps), FIELD(keys_weight), FIELD(keys_bias), FIELD(direction), FIELD(released), FIELD(summed),
        FIELD(gate_input), FIELD(cumulative), FIELD(map_weight), FIELD(map_bias), FIELD(entrance_weight),
        FIELD(entrance_bias)});
}

inline std::string described_part() {
    using Struct = Part;
    return described<Struct>("Part", {FIELD(rows), FIELD(steps), FIELD(tokens), FIELD(labels)});
}

inline std::string described_training() {
    using Struct = Training;
    return described<Struct>("Training", {
        FIELD(wide), FIELD(order), FIELD(width), FIELD(depth), FIELD(vocabulary), FIELD(classes), FIELD(tensors),
        FIELD(first_of_rows), FIELD(parts), FIELD(layers), FIELD(weights), FIELD(batch), FIELD(gradient),
        FIELD(reading), FIELD(embedding), FIELD(decoder_weight), FIELD(decoder_bias), FIELD(projection),
        FIELD(narrow), FIELD(widen_tanh), FIELD(widen_weight), FIELD(widen_bias), FIELD(focal), FIELD(focal_gamma),
        FIELD(focal_alpha), FIELD(temperature), FIELD(rate),
        FIELD(first_decay), FIELD(second_decay), FIELD(epsilon), FIELD(weight_decay), FIELD(most), FIELD(loss),
        FIELD(norm), FIELD(hits), FIELD(taken), FIELD(whole), FIELD(span), FIELD(scores)});
}

inline std::string described_table() {
    using Struct = Table;
    return described<Struct>("Table", {
        FIELD(wide), FIELD(length), FIELD(symbols), FIELD(row), FIELD(sequence), FIELD(rows), FIELD(answers),
        FIELD(out)});
}

inline std::string described_tree() {
    using Struct = Tree;
    return described<Struct>("Tree", {
        FIELD(nodes), FIELD(symbols), FIELD(classes), FIELD(parent), FIELD(token), FIELD(end), FIELD(first),
        FIELD(label), FIELD(weight)});
}

inline std::string described_merge() {
    using Struct = Merge;
    return described<Struct>("Merge", {
        FIELD(tree), FIELD(most), FIELD(breadth), FIELD(conflict), FIELD(floor), FIELD(agree), FIELD(table)});
}

inline std::string described_polish() {
    using Struct = Polish;
    return described<Struct>("Polish", {
        FIELD(tree), FIELD(states), FIELD(room), FIELD(split), FIELD(work), FIELD(miss_bits),
        FIELD(state_bits), FIELD(row_bits), FIELD(table)});
}

#undef FIELD

struct Number {
    const char* name;
    int64_t value;
};

// "Name: option number, …".
template <size_t count>
std::string described(const char* name, const Number (&numbers)[count]) {
    std::string text = std::string(name) + ":";
    for (size_t i = 0; i < count; i++)
        text += std::string(i ? ", " : " ") + numbers[i].name + " " + std::to_string(numbers[i].value);
    return text + "\n";
}

inline const char* description() {
    static const std::string text =
        described_scan() + described_route() + described_resonate() + described_block() + described_stack() +
        described_stream() + described_weight() + described_layer() + described_part() + described_training() +
        described_table() + described_tree() + described_merge() + described_polish() +
        described("Rotate", {{"none", NONE}, {"input", INPUT}, {"state", STATE}}) +
        described("Decay", {{"softplus", SOFTPLUS}, {"exp", EXP}, {"unit", UNIT}, {"reset", RESET}, {"switch", SWITCH},
                            {"none", KEEP}, {"count", COUNT}}) +
        described("Activation", {{"none", LINEAR}, {"boundary", BOUNDARY}, {"step", STEP}}) +
        described("Norm", {{"none", WITHOUT}, {"complex", COMPLEX}, {"layer", LAYER}, {"root", ROOT}}) +
        described("GateInput", {{"input", OF_INPUT}, {"entering", OF_ENTERING}, {"state", OF_STATE}}) +
        described("Reading", {{"state", STATES}, {"phasor", PHASORS}, {"angle", ANGLES}});
    return text.c_str();
}
