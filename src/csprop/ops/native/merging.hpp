// Merging the nodes of a prefix tree into the states of a machine, although some labels may be wrong.
//
// Nodes are red (states of the machine), blue (led to from a red one) or neither. Merging a blue node with a
// red one merges what follows as well. What that gains is measured in bits: two nodes with labels that become one
// need one answer instead of two, which saves the bits of that answer; and every label that the common answer
// contradicts, and that the single answers did not, costs `conflict` bits. A blue node that no red one gains
// from becomes red itself; otherwise the best merge of all is made. Only the first `breadth` blue nodes are considered.
// learning/merging.py is the specification.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "layout.hpp"

class Merging {
  public:
    explicit Merging(const Merge& arguments)
        : given(arguments),
          tree(*arguments.tree),
          child(tree.nodes * tree.symbols, -1),
          into(tree.nodes),
          counts(tree.nodes * tree.classes, 0) {
        for (int64_t node = 0; node < tree.nodes; node++) {
            into[node] = node;
            if (node) child[tree.parent[node] * tree.symbols + tree.token[node]] = node;
            for (int32_t i = tree.first[node]; i < tree.first[node + 1]; i++)
                counts[node * tree.classes + tree.label[i]] += tree.weight[i];
        }
    }

    // The number of states, or -1 where there would be more than `most`.
    int64_t run() {
        std::vector<int64_t> red{0};
        for (;;) {
            const std::vector<int64_t> blue = fringe(red);
            if (blue.empty()) break;
            int64_t alone = -1, best_blue = -1, best_red = -1;
            double least = 0, most = -INFINITY;
            for (int64_t b : blue) {
                double best = -INFINITY;
                int64_t with = -1;
                for (int64_t r : red) {
                    const double gain = fold(r, b, given.floor);
                    undo();
                    if (gain > best) best = gain, with = r;
                }
                if (best < 0 && best < least) least = best, alone = b;
                if (best > most) most = best, best_blue = b, best_red = with;
            }
            if (alone >= 0) {
                if (int64_t(red.size()) >= given.most) return -1;
                red.push_back(alone);
            } else {
                fold(best_red, best_blue, -INFINITY);
                merged.clear(), adopted.clear();
                for (int64_t& r : red) r = find(r);
            }
        }
        return written(red);
    }

  private:
    const Merge& given;
    const Tree& tree;
    std::vector<int64_t> child, into, counts;
    std::vector<std::pair<int64_t, int64_t>> merged, waiting;  // (a, b): b into a
    std::vector<int64_t> adopted;                              // entries of `child` that were empty

    int64_t find(int64_t node) const {
        while (into[node] != node) node = into[node];
        return node;
    }

    std::vector<int64_t> fringe(const std::vector<int64_t>& red) const {
        std::vector<int64_t> blue;
        for (int64_t r : red)
            for (int64_t token = 0; token < tree.symbols; token++) {
                int64_t node = child[r * tree.symbols + token];
                if (node < 0) continue;
                node = find(node);
                const auto in = [node](const std::vector<int64_t>& all) {
                    return std::find(all.begin(), all.end(), node) != all.end();
                };
                if (!in(red) && !in(blue)) blue.push_back(node);
                if (int64_t(blue.size()) == given.breadth) return blue;
            }
        return blue;
    }

    // The gain of giving two nodes one answer.
    double gained(int64_t a, int64_t b) const {
        const int64_t *x = &counts[a * tree.classes], *y = &counts[b * tree.classes];
        int64_t all_x = 0, all_y = 0, most_x = 0, most_y = 0, most = -1, answer = 0;
        for (int64_t c = 0; c < tree.classes; c++) {
            all_x += x[c], all_y += y[c];
            most_x = std::max(most_x, x[c]), most_y = std::max(most_y, y[c]);
            if (x[c] + y[c] > most) most = x[c] + y[c], answer = c;
        }
        if (!all_x || !all_y) return 0;
        return given.agree[answer] - given.conflict * double(most_x + most_y - most);
    }

    // Merge two nodes and what follows, unless the gain falls below `floor`; `undo` takes it back.
    double fold(int64_t a, int64_t b, double floor) {
        double gain = 0;
        waiting.assign(1, {a, b});
        while (!waiting.empty() && gain >= floor) {
            a = find(waiting.back().first), b = find(waiting.back().second);
            waiting.pop_back();
            if (a == b) continue;
            if (a > b) std::swap(a, b);
            gain += gained(a, b);
            into[b] = a;
            merged.push_back({a, b});
            for (int64_t c = 0; c < tree.classes; c++)
                counts[a * tree.classes + c] += counts[b * tree.classes + c];
            for (int64_t token = 0; token < tree.symbols; token++) {
                const int64_t mine = a * tree.symbols + token, theirs = child[b * tree.symbols + token];
                if (theirs < 0) continue;
                if (child[mine] >= 0) {
                    waiting.push_back({child[mine], theirs});
                } else {
                    child[mine] = theirs;
                    adopted.push_back(mine);
                }
            }
        }
        return gain;
    }

    void undo() {
        for (; !adopted.empty(); adopted.pop_back()) child[adopted.back()] = -1;
        for (; !merged.empty(); merged.pop_back()) {
            const auto [a, b] = merged.back();
            into[b] = b;
            for (int64_t c = 0; c < tree.classes; c++)
                counts[a * tree.classes + c] -= counts[b * tree.classes + c];
        }
    }

    int64_t written(const std::vector<int64_t>& red) const {
        for (size_t state = 0; state < red.size(); state++)
            for (int64_t token = 0; token < tree.symbols; token++) {
                const int64_t node = child[red[state] * tree.symbols + token];
                const auto there = node < 0 ? red.end() : std::find(red.begin(), red.end(), find(node));
                given.table[state * tree.symbols + token] =
                    int32_t(there == red.end() ? int64_t(state) : there - red.begin());
            }
        return red.size();
    }
};
