// Plans a call on the rows of a batch: their scores, the adjoint, or a training step.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "plan.hpp"

// A plan and what it points to.
class Planned {
   public:
    Plan plan{};
    std::vector<Chunk> chunks;

    explicit Planned(Model& model) : offsets_(model.tensors + 1) {
        plan.model = &model;
        for (int64_t i = 0; i < model.tensors; i++) offsets_[i + 1] = offsets_[i] + model.weights[i].size;
        number_tokens();
        plan.span = plan.longest <= model.whole ? plan.longest : model.span;
        plan.pieces = std::max<int64_t>(1, cut(plan, 0, 0, model.reset ? 0 : plan.longest, nullptr));
        for (int64_t row = 0; model.reset && row < model.batch->rows; row++)
            plan.pieces = std::max(plan.pieces, cut(plan, plan.longest, row, plan.longest, nullptr));
        if (model.wide) count_numbers<double>();
        else count_numbers<float>();
        for (int64_t part = 0; part < model.parts; part++) divide(part);
        plan.entries = tokens_.size(), plan.tokens = tokens_.data(), plan.entry = entry_.data();
        plan.answer = answer_.data();
        plan.offsets = offsets_.data(), plan.chunks = chunks.size();
        losses_.resize(chunks.size()), hits_.resize(chunks.size()), inexact_.resize(chunks.size());
        plan.losses = losses_.data(), plan.hits = hits_.data(), plan.inexact = inexact_.data();
        if (model.wide) make_room<double>();
        else make_room<float>();
    }

    // Memory of a thread, in doubles.
    int64_t thread_numbers() const { return plan.model->wide ? numbers_of<double>() : numbers_of<float>(); }

    bool exact() const { return std::none_of(inexact_.begin(), inexact_.end(), [](int64_t each) { return each; }); }

   private:
    std::vector<int64_t> offsets_, hits_, inexact_;
    std::vector<int32_t> tokens_;
    std::vector<std::vector<int32_t>> entries_;
    std::vector<const int32_t*> entry_;
    std::vector<std::vector<int64_t>> answers_;
    std::vector<const int64_t*> answer_;
    std::vector<double> losses_;
    std::unique_ptr<double[]> prepared_, gradients_;

    void number_tokens() {
        const Model& model = *plan.model;
        std::vector<int32_t> number(model.vocabulary, -1);
        for (const Part* part = model.batch; part < model.batch + model.parts; part++) {
            entries_.emplace_back(part->rows * part->steps), answers_.emplace_back(part->rows);
            const int64_t *token = part->tokens, *label = part->labels;
            int32_t* entry = entries_.back().data();
            for (int64_t row = 0; row < part->rows; row++) {
                answers_.back()[row] = plan.labelled;
                for (int64_t t = 0; t < part->steps; t++, token++, entry++) {
                    const int64_t here = label ? *label++ : 0;
                    if (*token < 0 || *token >= model.vocabulary) throw std::out_of_range("token");
                    if (here >= model.classes) throw std::out_of_range("label");
                    if (here >= 0) plan.labelled++, plan.longest = std::max(plan.longest, t + 1);
                    if (number[*token] < 0) number[*token] = tokens_.size(), tokens_.push_back(*token);
                    *entry = number[*token];
                }
            }
            entry_.push_back(entries_.back().data()), answer_.push_back(answers_.back().data());
        }
    }

    void divide(int64_t part) {
        const Model& model = *plan.model;
        const int64_t rows = model.batch[part].rows, steps = rows * model.batch[part].steps;
        // Each has gradients of its own, which must not cost more than its rows.
        const int64_t numbers = steps * model.order * model.width * model.depth;
        const int64_t worth = std::max<int64_t>(1, 4 * numbers / (plan.gradient_numbers + 1));
        const int64_t count = std::min({MOST_CHUNKS, rows, worth, (steps + FEWEST_STEPS - 1) / FEWEST_STEPS});
        for (int64_t i = 0; i < count; i++)
            chunks.push_back({&plan, part, rows * i / count, rows * (i + 1) / count, int64_t(chunks.size())});
    }

    template <typename real>
    void count_numbers() {
        const Model& model = *plan.model;
        Room<real> room{nullptr};
        const int64_t tensors = offsets_[model.tensors] - offsets_[model.first_of_rows];
        if (!model.scores) Gradients<real>(model, tensors, int64_t(tokens_.size()), room);
        plan.gradient_numbers = room.used;
    }

    template <typename real>
    void make_room() {
        Room<real> fixed{nullptr};
        Prepared<real>(*plan.model, plan.entries, fixed);
        const auto doubles = [](int64_t numbers) { return numbers * sizeof(real) / sizeof(double) + 1; };
        prepared_.reset(new double[doubles(fixed.used)]);
        gradients_.reset(new double[doubles(plan.gradient_numbers * std::max<int64_t>(1, plan.chunks))]);
        plan.prepared = prepared_.get(), plan.gradients = gradients_.get();
    }

    template <typename real>
    int64_t numbers_of() const {
        Room<real> room{nullptr};
        Memory<real>(*plan.model, plan.span, plan.pieces, room);
        for (int64_t l = 0; l < plan.model->depth; l++) Passage<real>{}.lay_out(*plan.model, l, plan.span, room);
        return room.used * sizeof(real) / sizeof(double) + 1;
    }
};
