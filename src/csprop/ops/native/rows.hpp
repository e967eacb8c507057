// The code for one row of a batch, compiled for one kind of processor: a source file defines TARGET, its namespace, and
// includes this file.
#pragma once

#include "every.hpp"
#include "heads.hpp"
#include "resonate.hpp"
#include "route.hpp"
#include "scan.hpp"
#include "step.hpp"

namespace TARGET {

const Functions functions = {
    [](const Scan& scan, void* memory, int64_t first, int64_t last) {
        if (scan.wide) scan_either<double>(scan, memory, first, last);
        else scan_either<float>(scan, memory, first, last);
    },
    [](const Route& route, void*, int64_t first, int64_t last) {
        if (route.wide) route_either<double>(route, first, last);
        else route_either<float>(route, first, last);
    },
    [](const Resonate& work, void* memory, int64_t first, int64_t last) {
        if (work.wide) resonate_parts(work, static_cast<double*>(memory), first, last);
        else resonate_parts(work, static_cast<float*>(memory), first, last);
    },
    [](const Heads& work, void*, int64_t first, int64_t last) {
        if (work.wide) turns_either<double>(work, first, last);
        else turns_either<float>(work, first, last);
    },
    [](const Heads& work, void*, int64_t first, int64_t last) {
        if (work.wide) places_either<double>(work, first, last);
        else places_either<float>(work, first, last);
    },
    [](const Plan& plan, void* memory) {
        if (plan.model->wide) Step<double>(plan).prepare(memory);
        else Step<float>(plan).prepare(memory);
    },
    [](const Chunks& chunks, void* memory, int64_t first, int64_t last) {
        for (const Chunk* chunk = chunks.each + first; chunk < chunks.each + last; chunk++) {
            if (chunk->plan->model->wide) Step<double>(*chunk->plan).go_through(*chunk, memory);
            else Step<float>(*chunk->plan).go_through(*chunk, memory);
        }
    },
    [](const Plan& plan, void* memory) {
        if (plan.model->wide) Step<double>(plan).descend(memory);
        else Step<float>(plan).descend(memory);
    },
    [](const Subtrees& trees, void* memory, int64_t first, int64_t last) {
        if (trees.plan->model->wide) Every<double>(trees, memory).go_through(first, last);
        else Every<float>(trees, memory).go_through(first, last);
    },
};

}  // namespace TARGET
