// Plans the walk of every.hpp: which subtrees, and where everything lies in memory.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "plan.hpp"

// A plan and what it points to.
class PlannedSubtrees {
   public:
    Plan plan{};
    Subtrees trees{};

    PlannedSubtrees(Model& model, int64_t symbols, int64_t length, void* scores)
        : tokens_(symbols), offsets_(model.tensors + 1) {
        std::iota(tokens_.begin(), tokens_.end(), 0);
        plan.model = &model, plan.longest = plan.span = BLOCK, plan.pieces = 1;
        plan.entries = symbols, plan.tokens = tokens_.data(), plan.offsets = offsets_.data();
        trees.plan = &plan, trees.symbols = symbols, trees.length = length, trees.scores = scores;
        trees.width = model.width, trees.prefixes = 1;
        while (trees.top < length && trees.prefixes < FEWEST_PREFIXES) trees.top++, trees.prefixes *= symbols;
        trees.batch = (trees.prefixes + BLOCK - 1) / BLOCK, trees.steps = BLOCK;
        for (int64_t t = trees.top; t < length; t++) trees.steps *= symbols;
        inexact_.resize(trees.batch), plan.inexact = inexact_.data();
        prepared_.reset(new double[model.wide ? numbers<double>(false) : numbers<float>(false)]);
        plan.prepared = prepared_.get();
    }

    // Memory of a thread, in doubles.
    int64_t thread_numbers() const { return plan.model->wide ? numbers<double>(true) : numbers<float>(true); }

    bool exact() const { return std::none_of(inexact_.begin(), inexact_.end(), [](int64_t each) { return each; }); }

   private:
    std::vector<int32_t> tokens_;
    std::vector<int64_t> offsets_, inexact_;  // without gradients there are no offsets
    std::unique_ptr<double[]> prepared_;

    template <typename real>
    int64_t numbers(bool of_thread) const {
        Room<real> room{nullptr};
        const Model& model = *plan.model;
        if (of_thread) {
            Memory<real>(model, BLOCK, 1, room);
            Kept<real>(model, trees.length, room);
            for (int64_t l = 0; l < model.depth; l++) Passage<real>{}.lay_out(model, l, BLOCK, room);
        } else Prepared<real>(model, plan.entries, room);
        return room.used * sizeof(real) / sizeof(double) + 1;
    }
};
