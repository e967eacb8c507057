// The functions that Python calls. Rows of a batch are independent: they are dealt out to threads, and
// what is summed over rows is summed afterwards, so that results do not depend on the threads.
#include <algorithm>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "layout.hpp"

extern const Functions plain_functions, avx2_functions;

static const Functions& chosen() {
#if defined(__x86_64__)
    static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (fast) return avx2_functions;
#endif
    return plain_functions;
}

template <typename Arguments>
static void deal(const Arguments& work, int64_t threads,
                 void (*rows)(const Arguments&, void* memory, int64_t first, int64_t last)) {
    constexpr int64_t worth = 1 << 16;  // channel steps that take longer than starting a thread
    const int64_t batch = work.batch, shares = batch * work.steps * work.width / worth;
    threads = std::max<int64_t>(1, std::min({threads, batch, shares}));
    const int64_t size = SCRATCH * work.width;
    std::vector<double> memory(threads * size);
    std::vector<std::thread> others;
    for (int64_t i = 1; i < threads; i++)
        others.emplace_back(rows, std::cref(work), &memory[i * size], batch * i / threads, batch * (i + 1) / threads);
    rows(work, memory.data(), 0, batch / threads);
    for (std::thread& other : others) other.join();
}

template <typename real>
static void sum_rows(const real* rows, real* sums, int64_t groups, int64_t count, int64_t size) {
    std::fill(sums, sums + groups * size, real(0));
    for (int64_t group = 0; group < groups; group++)
        for (int64_t row = 0; row < count; row++, rows += size)
            for (int64_t i = 0; i < size; i++) sums[group * size + i] += rows[i];
}

// The adjoint of a block; the gradients of its parameters first go into memory of their own.
template <typename real>
static void adjoint(const Block& block, int64_t threads) {
    const Parameters parameters(block);
    std::vector<real> memory[std::size(parameters.each)];
    Block rows = block;
    for (size_t i = 0; i < std::size(memory); i++) {
        const Parameter& parameter = parameters.each[i];
        if (!(block.*parameter.gradient)) continue;
        memory[i].resize(block.batch * parameter.size);
        rows.*parameter.gradient = memory[i].data();
    }
    deal(rows, threads, chosen().block);
    for (size_t i = 0; i < std::size(memory); i++)
        if (!memory[i].empty())
            sum_rows(memory[i].data(), static_cast<real*>(block.*parameters.each[i].gradient), block.groups,
                     block.batch / block.groups, parameters.each[i].size);
}

extern "C" {
void csprop_block(const Block* block, int64_t threads) {
    if (!block->g_out) deal(*block, threads, chosen().block);
    else if (block->wide) adjoint<double>(*block, threads);
    else adjoint<float>(*block, threads);
}
void csprop_scan(const Scan* scan, int64_t threads) { deal(*scan, threads, chosen().scan); }
void csprop_stream(const Stream* stream, int64_t token) { chosen().stream(*stream, token); }
int64_t csprop_scratch() { return SCRATCH; }
const char* csprop_target() { return &chosen() == &plain_functions ? "plain" : "avx2"; }
}
