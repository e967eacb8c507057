// The functions that Python calls. Rows of a batch are independent: they are dealt out to threads, and
// what is summed over rows is summed by the caller, so that results do not depend on the threads.
#include <algorithm>
#include <functional>
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

extern "C" {
void csprop_block_forward(const Block* block, int64_t threads) { deal(*block, threads, chosen().block_forward); }
void csprop_block_backward(const Block* block, int64_t threads) { deal(*block, threads, chosen().block_backward); }
void csprop_scan(const Scan* scan, int64_t threads) { deal(*scan, threads, chosen().scan); }
void csprop_stream(const Stream* stream, int64_t token) { chosen().stream(*stream, token); }
int64_t csprop_scratch() { return SCRATCH; }
const char* csprop_target() { return &chosen() == &plain_functions ? "plain" : "avx2"; }
}
