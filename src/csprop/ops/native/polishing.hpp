// A local search on the table of a machine, for the shortest description of the rows in a prefix tree.
//
// Each state answers with the majority label of the rows that end there. learning/description.py defines the bits of a
// description. Three kinds of moves are tried until none saves bits: an entry of the table leads
// elsewhere; all that leads to one state leads to another; an entry leads to a copy of its state, whose own entries
// are then free. learning/polishing.py is the specification.
//
// Only the part of the tree that a move changes is walked: `through[entry]` has the nodes that an entry leads
// to, and below a node whose state does not change nothing changes, except where such a node is met again.
#pragma once

#include <algorithm>
#include <vector>

#include "layout.hpp"

class Polishing {
  public:
    explicit Polishing(const Polish& arguments)
        : given(arguments),
          tree(*arguments.tree),
          states(arguments.states),
          table(arguments.table, arguments.table + arguments.states * tree.symbols),
          state(tree.nodes),
          changed(tree.nodes),
          stamp(tree.nodes, 0) {
        settle();
    }

    // The number of states of the polished table, which takes the place of the given one.
    int64_t run() {
        do {
            while (redirected_some()) {}
        } while (merged_some() || (given.split && split_some()));
        std::copy(table.begin(), table.end(), given.table);
        return states;
    }

  private:
    struct Elsewhere {
        int64_t entries = 0;
        double bits = 0;
        void operator+=(const Elsewhere& other) { entries += other.entries, bits += other.bits; }
        void operator-=(const Elsewhere& other) { entries -= other.entries, bits -= other.bits; }
    };

    const Polish& given;
    const Tree& tree;
    Elsewhere elsewhere;
    int64_t states, mark = 0, work = 0, contradicted = 0;
    std::vector<int32_t> table, state, changed, touched, replaced;
    std::vector<int64_t> stamp, counts, led;
    std::vector<std::vector<int32_t>> through;

    bool tired() const { return work > given.work; }

    // The bits of some misses and of a table with `count` states.
    double bits(int64_t misses, int64_t count, const Elsewhere& all) const {
        const double* of_states = given.state_bits + count;
        const int64_t row = given.room + 1;
        const double by_default = of_states[row] + all.bits + all.entries * of_states[2 * row];
        return given.miss_bits[misses] + std::min(of_states[0], by_default);
    }
    double bits() const { return bits(contradicted, states, elsewhere); }

    // The entries of a state that do not lead where most of its entries lead.
    Elsewhere of_row(const int32_t* row) {
        int64_t most = 0;
        for (int64_t token = 0; token < tree.symbols; token++) most = std::max(most, ++led[row[token]]);
        for (int64_t token = 0; token < tree.symbols; token++) led[row[token]] = 0;
        work += 1 + tree.symbols / 16;
        return of_most(most);
    }
    Elsewhere of_most(int64_t most) const { return {tree.symbols - most, given.row_bits[tree.symbols - most]}; }

    // The same of all states but `without`.
    Elsewhere of_table(int64_t without = -1) {
        Elsewhere all;
        for (int64_t s = 0; s < states; s++)
            if (s != without) all += of_row(&table[s * tree.symbols]);
        return all;
    }

    // Keep the states in use, numbered as the tree meets them, and note where every node is.
    void settle() {
        const int64_t symbols = tree.symbols;
        std::vector<int32_t> number(states, -1), order{0};
        number[0] = 0;
        state[0] = 0;
        for (int64_t node = 1; node < tree.nodes; node++) {
            const int32_t here = table[state[tree.parent[node]] * symbols + tree.token[node]];
            state[node] = here;
            if (number[here] < 0) number[here] = int32_t(order.size()), order.push_back(here);
        }
        std::vector<int32_t> renumbered(order.size() * symbols);
        for (size_t i = 0; i < order.size(); i++)
            for (int64_t token = 0; token < symbols; token++) {
                const int32_t there = number[table[order[i] * symbols + token]];
                renumbered[i * symbols + token] = there < 0 ? int32_t(i) : there;
            }
        table.swap(renumbered);
        states = order.size();
        counts.assign(states * tree.classes, 0);
        through.assign(states * symbols, {});
        for (int64_t node = 0; node < tree.nodes; node++) {
            state[node] = number[state[node]];
            if (node) through[state[tree.parent[node]] * symbols + tree.token[node]].push_back(int32_t(node));
            for (int32_t i = tree.first[node]; i < tree.first[node + 1]; i++)
                counts[state[node] * tree.classes + tree.label[i]] += tree.weight[i];
        }
        contradicted = misses();
        led.assign(states, 0);
        elsewhere = of_table();
        work += tree.nodes;
    }

    int64_t misses() const {
        int64_t missed = 0;
        for (int64_t s = 0; s < states; s++) {
            const int64_t* count = &counts[s * tree.classes];
            int64_t all = 0, most = 0;
            for (int64_t c = 0; c < tree.classes; c++) all += count[c], most = std::max(most, count[c]);
            missed += all - most;
        }
        return missed;
    }

    void move(int64_t node, int64_t from, int64_t to) {
        for (int32_t i = tree.first[node]; i < tree.first[node + 1]; i++) {
            counts[from * tree.classes + tree.label[i]] -= tree.weight[i];
            counts[to * tree.classes + tree.label[i]] += tree.weight[i];
        }
    }

    int32_t now(int64_t node) const { return stamp[node] == mark ? changed[node] : state[node]; }

    void walk(const std::vector<int32_t>& roots) {
        for (int64_t root : roots)
            for (int64_t node = root, end = tree.end[root]; node < end;) {
                const int32_t to = table[now(tree.parent[node]) * tree.symbols + tree.token[node]];
                if (to == now(node)) {
                    node = tree.end[node];
                    continue;
                }
                move(node, now(node), to);
                if (stamp[node] != mark) touched.push_back(int32_t(node));
                stamp[node] = mark;
                changed[node] = to;
                node++;
            }
    }

    // Returns the number of contradicted labels if these entries led to `target`. Changes nothing.
    int64_t tried(const std::vector<int64_t>& entries, int64_t target) {
        mark++;
        touched.clear();
        replaced.clear();
        for (int64_t entry : entries) replaced.push_back(table[entry]), table[entry] = int32_t(target);
        for (int64_t entry : entries) walk(through[entry]);
        const int64_t missed = misses();
        for (int64_t node : touched) move(node, changed[node], state[node]);
        for (size_t i = 0; i < entries.size(); i++) table[entries[i]] = replaced[i];
        work += 1 + touched.size() + states * tree.classes / 4;
        return missed;
    }

    bool redirected(int64_t entry) {
        if (through[entry].empty() || tired()) return false;
        const int64_t symbols = tree.symbols, token = entry % symbols;
        const int32_t* row = &table[entry - token];
        Elsewhere others = elsewhere;
        others -= of_row(row);
        int64_t top = 0;  // how many of the other entries lead where most of them lead
        for (int64_t other = 0; other < symbols; other++)
            if (other != token) top = std::max(top, ++led[row[other]]);
        int64_t best = -1;
        double least = bits() - SLACK;
        for (int64_t target = 0; target < states; target++) {
            if (target == table[entry]) continue;
            Elsewhere all = others;
            all += of_most(std::max(top, led[target] + 1));
            if (bits(0, states, all) >= least) continue;  // no fit could make up for it
            const double length = bits(tried({entry}, target), states, all);
            if (length < least) least = length - SLACK, best = target;
        }
        for (int64_t other = 0; other < symbols; other++) led[row[other]] = 0;
        if (best < 0) return false;
        table[entry] = int32_t(best);
        settle();
        return true;
    }

    bool redirected_some() {
        bool any = false;
        for (int64_t entry = 0; entry < states * tree.symbols; entry++) any |= redirected(entry);
        return any;
    }

    bool merged_some() {
        bool any = false;
        for (int64_t from = states - 1; from > 0 && !tired(); from--) {
            if (from >= states) continue;  // the merger before has taken more than one state away
            std::vector<int64_t> entries;
            for (int64_t entry = 0; entry < states * tree.symbols; entry++)
                if (table[entry] == from) entries.push_back(entry);
            int64_t best = -1;
            double least = bits() - SLACK;
            for (int64_t to = 0; to < states; to++) {
                if (to == from) continue;
                for (int64_t entry : entries) table[entry] = int32_t(to);
                const Elsewhere all = of_table(from);
                for (int64_t entry : entries) table[entry] = int32_t(from);
                if (bits(0, states - 1, all) >= least) continue;
                const double length = bits(tried(entries, to), states - 1, all);
                if (length < least) least = length - SLACK, best = to;
            }
            if (best < 0) continue;
            for (int64_t entry : entries) table[entry] = int32_t(best);
            settle();
            any = true;
        }
        return any;
    }

    bool split_some() {
        const int64_t symbols = tree.symbols;
        if (!contradicted || states == given.room) return false;
        for (int64_t entry = 0; entry < states * symbols && !tired(); entry++) {
            if (through[entry].empty() || !shared(entry)) continue;
            const double before = bits();
            const std::vector<int32_t> kept = table;
            const int64_t met = through[entry][0];  // the first node that the entry leads to
            const int64_t original = table[entry] * symbols;
            table.insert(table.end(), kept.begin() + original, kept.begin() + original + symbols);
            table[entry] = int32_t(states++);
            settle();
            for (int64_t token = 0; token < symbols; token++) redirected(state[met] * symbols + token);
            if (bits() < before - SLACK) return true;
            table = kept;
            states = kept.size() / symbols;
            settle();
        }
        return false;
    }

    // Returns true if another entry leads to the same state.
    bool shared(int64_t entry) const {
        if (table[entry] == 0) return true;  // the start
        for (int64_t other = 0; other < int64_t(table.size()); other++)
            if (other != entry && table[other] == table[entry] && !through[other].empty()) return true;
        return false;
    }

    static constexpr double SLACK = 1e-9;
};
