// A finite automaton over a sequence of tokens. Every state waits for the one before it, so what a token
// costs is the one load that leads from a row of the table to the next; all else fits in its shadow.
#pragma once

#include <algorithm>

#include "layout.hpp"

// The position of the first token that is none, or -1.
template <typename Token>
static int64_t run_table(Table& table) {
    constexpr int64_t piece = 4096;  // tokens looked at before they are used, while in the nearest cache
    const Token* tokens = static_cast<const Token*>(table.sequence);
    const uint64_t symbols = table.symbols;
    uint64_t row = table.row;
    for (int64_t first = 0; first < table.length; first += piece) {
        const int64_t last = std::min(first + piece, table.length);
        Token largest = 0;  // unsigned: a negative number is a large one
#pragma omp simd reduction(max : largest)
        for (int64_t i = first; i < last; i++) largest = std::max(largest, tokens[i]);
        if (largest >= symbols) {
            for (int64_t i = first;; i++)
                if (tokens[i] >= symbols) return i;
        }
        if (!table.out) {
            for (int64_t i = first; i < last; i++) row = (table.rows + tokens[i])[row];
        } else {
            for (int64_t i = first; i < last; i++) {
                const uint64_t place = row + tokens[i];
                row = table.rows[place];
                table.out[i] = table.answers[place];
            }
        }
    }
    table.row = row;
    return -1;
}
