// The functions that Python calls. Threads share the independent rows of a batch, and sums over rows are taken
// afterwards, so results do not depend on the number of threads.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "compilers.hpp"
#include "layout.hpp"
#include "subtrees.hpp"
#include "table.hpp"
#include "training.hpp"

extern const Functions plain_functions, avx2_functions;

static const Functions& chosen() {
#if defined(HAS_AVX2_CODE)
    static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                             !std::getenv("CSPROP_PLAIN");  // lets tests choose the plain code
    if (fast) return avx2_functions;
#endif
    return plain_functions;
}

// Returns the number of threads worth starting; `load`: the cost of a step, relative to one channel.
template <typename Arguments>
static int64_t shares(const Arguments& work, int64_t load) {
    constexpr int64_t worth = 1 << 16;  // channel steps that take longer than starting a thread
    return std::max<int64_t>(1, work.batch * work.steps * work.width * load / worth);
}

template <typename Arguments>
static int64_t worthwhile(const Arguments& work, int64_t load, int64_t threads) {
    return std::max<int64_t>(1, std::min({threads, work.batch, shares(work, load)}));
}

// Splits rows among threads; each has `size` numbers of the memory.
template <typename Arguments>
static void deal(const Arguments& work, double* memory, int64_t size, int64_t threads,
                 void (*rows)(const Arguments&, void* memory, int64_t first, int64_t last)) {
    const int64_t batch = work.batch;
    std::vector<std::thread> others;
    others.reserve(threads);
    for (int64_t i = 1; i < threads; i++) {
        const int64_t first = batch * i / threads, last = batch * (i + 1) / threads;
        try {
            others.emplace_back(rows, std::cref(work), memory + i * size, first, last);
        } catch (const std::exception&) {  // no thread is available
            rows(work, memory + i * size, first, last);
        }
    }
    rows(work, memory, 0, batch / threads);
    for (std::thread& other : others) other.join();
}

// Allocates zeroed memory: `vectors` vectors of the width for each thread.
template <typename Arguments>
static void deal(const Arguments& work, int64_t load, int64_t vectors, int64_t threads,
                 void (*rows)(const Arguments&, void* memory, int64_t first, int64_t last)) {
    threads = worthwhile(work, load, threads);
    std::vector<double> memory(threads * vectors * work.width);
    deal(work, memory.data(), vectors * work.width, threads, rows);
}

// Fresh memory comes in pages of 4 KiB, with one fault each. Large blocks ask for large pages.
static void ask_for_large_pages(void* memory, int64_t bytes) {
#if defined(__linux__)
    constexpr uintptr_t page = 1 << 21;
    const uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
    const uintptr_t last = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
    if (memory && last > first + 2 * page) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

// Memory of a call. A small block is reused by the thread's next call; a large one has large pages.
class Workspace {
   public:
    double* numbers;

    explicit Workspace(int64_t count) : numbers(nullptr) {
        constexpr int64_t most = 1 << 23;  // 64 MiB
        thread_local std::unique_ptr<double[]> kept;
        thread_local int64_t size = 0;
        if (count > most) {
            own_.reset(new double[count]);
            ask_for_large_pages(own_.get(), count * sizeof(double));
        } else if (count > size) {
            kept.reset(), size = 0;
            kept.reset(new double[count]), size = count;
        }
        numbers = own_ ? own_.get() : kept.get();
    }

   private:
    std::unique_ptr<double[]> own_;
};

static void run_scan(const Scan* scan, int64_t threads) {
    const int64_t number = scan->wide ? 8 : 4, steps = scan->batch * scan->steps;
    if (!scan->g_h) ask_for_large_pages(scan->h, steps * scan->order * scan->width * number);
    ask_for_large_pages(scan->g_u, steps * scan->order * scan->width * number);
    ask_for_large_pages(scan->g_a, steps * scan->planes * scan->columns * number);
    const int64_t load = std::max(scan->order, scan->planes) / 2;  // a complex number is 1
    deal(*scan, load, 4 * scan->order + scan->planes, threads, chosen().scan);
}
static void run_route(const Route* route, int64_t threads) {
    deal(*route, std::max<int64_t>(1, route->maps ? route->places / 8 : 1), 0, threads, chosen().route);
}
static void run_resonate(const Resonate* work, int64_t threads) {
    deal(*work, std::max<int64_t>(1, 4 * work->rows / work->batch), 16, threads, chosen().resonate);
}
static void run_turns(const Heads* work, int64_t threads) {
    deal(*work, 4 * work->size * work->reflections, 0, threads, chosen().turns);
}
static void run_places(const Heads* work, int64_t threads) {
    deal(*work, 4 * work->size, 0, threads, chosen().places);
}
// The scores of the rows of a model.
static void run_scores(Model* model, int64_t threads) {
    const Planned planned(*model);
    const int64_t steps = std::max(FEWEST_STEPS, planned.plan.longest);  // of a chunk
    const Chunks work{int64_t(planned.chunks.size()), steps, model->width, planned.chunks.data()};
    threads = worthwhile(work, model->depth, threads);
    const Workspace memory(threads * planned.thread_numbers());
    chosen().prepare(planned.plan, memory.numbers);
    deal(work, memory.numbers, planned.thread_numbers(), threads, chosen().go_through);
    if (!planned.exact()) throw std::range_error("count");
}
// Threads share the rows of all models.
static void run_steps(Model* const* models, int64_t count, int64_t threads) {
    std::vector<std::unique_ptr<Planned>> planned;
    std::vector<Chunk> chunks;
    int64_t size = 0, steps = FEWEST_STEPS;  // of a chunk
    for (int64_t i = 0; i < count; i++) {
        planned.push_back(std::make_unique<Planned>(*models[i]));
        const Planned& each = *planned.back();
        chunks.insert(chunks.end(), each.chunks.begin(), each.chunks.end());
        size = std::max(size, each.thread_numbers());
        steps = std::max(steps, each.plan.longest);
    }
    const Chunks work{int64_t(chunks.size()), steps, models[0]->width, chunks.data()};
    threads = worthwhile(work, 3 * models[0]->depth, threads);
    const Workspace memory(threads * size);
    for (const auto& each : planned) chosen().prepare(each->plan, memory.numbers);
    deal(work, memory.numbers, size, threads, chosen().go_through);
    for (const auto& each : planned)
        if (!each->exact()) throw std::range_error("count");
    for (const auto& each : planned) chosen().descend(each->plan, memory.numbers);
}

static void run_every(Model* model, int64_t symbols, int64_t length, void* scores, int64_t threads) {
    const PlannedSubtrees planned(*model, symbols, length, scores);
    const int64_t size = planned.thread_numbers();
    threads = worthwhile(planned.trees, model->depth, threads);
    const Workspace memory(threads * size);
    chosen().prepare(planned.plan, memory.numbers);
    deal(planned.trees, memory.numbers, size, threads, chosen().every);
    if (!planned.exact()) throw std::range_error("count");
}

// 0: done; 1: there was not enough memory; 2: a token or a label is outside of its range; 3: a count is not exact.
template <typename Function>
static int64_t status(Function function) {
    try {
        function();
        return 0;
    } catch (const std::bad_alloc&) {
        return 1;
    } catch (const std::out_of_range&) {
        return 2;
    } catch (const std::range_error&) {
        return 3;
    }
}

CALLED_BY_PYTHON int64_t csprop_scan(const Scan* scan, int64_t threads) {
    return status([&] { run_scan(scan, threads); });
}
CALLED_BY_PYTHON int64_t csprop_route(const Route* route, int64_t threads) {
    return status([&] { run_route(route, threads); });
}
CALLED_BY_PYTHON int64_t csprop_resonate(const Resonate* work, int64_t threads) {
    return status([&] { run_resonate(work, threads); });
}
CALLED_BY_PYTHON int64_t csprop_turns(const Heads* work, int64_t threads) {
    return status([&] { run_turns(work, threads); });
}
CALLED_BY_PYTHON int64_t csprop_places(const Heads* work, int64_t threads) {
    return status([&] { run_places(work, threads); });
}
// Unless all steps were done nothing has changed.
CALLED_BY_PYTHON int64_t csprop_steps(Model* const* models, int64_t count, int64_t threads) {
    return status([&] { run_steps(models, count, threads); });
}
CALLED_BY_PYTHON int64_t csprop_scores(Model* model, int64_t threads) {
    return status([&] { run_scores(model, threads); });
}
CALLED_BY_PYTHON int64_t csprop_every(Model* model, int64_t symbols, int64_t length, void* scores, int64_t threads) {
    return status([&] { run_every(model, symbols, length, scores, threads); });
}
CALLED_BY_PYTHON int64_t csprop_table(Table* table) {
    if (table->out) ask_for_large_pages(table->out, table->length * sizeof(uint16_t));
    return table->wide ? run_table<uint64_t>(*table) : run_table<uint8_t>(*table);
}
CALLED_BY_PYTHON const char* csprop_layout() { return layout_text; }
CALLED_BY_PYTHON const char* csprop_target() { return &chosen() == &plain_functions ? "plain" : "avx2"; }
