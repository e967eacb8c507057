// A finite automaton over a sequence of tokens. Every state waits for the one before it, so a token costs
// the one load that leads from a row of the table to the next; all other work overlaps with it.
#pragma once

#include <algorithm>

#include "layout.hpp"

// Returns the position of the first invalid token, or -1.
template <typename Token>
static int64_t run_table(Table& table) {
    constexpr int64_t piece = 4096;  // tokens looked at before they are used, while in the nearest cache
    const Token* tokens = static_cast<const Token*>(table.sequence);
    const uint64_t symbols = table.symbols;
    uint64_t row = table.row;
    for (int64_t first = 0; first < table.length; first += piece) {
        const int64_t last = std::min(first + piece, table.length);
        Token largest = 0;  // unsigned, so a negative number is large
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
