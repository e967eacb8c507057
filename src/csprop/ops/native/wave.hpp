// A row's layers by several threads. A layer goes a stretch of steps at a time and stays behind the layer that it reads
// from, so that several are under way at once, one behind the other like waves. A thread takes whichever layer can go
// on. Every layer goes its stretches in order and by itself: no result depends on who goes when.
#pragma once

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "layout.hpp"

class Waves {
   public:
    Waves(const Wave& wave, void (*stretch)(const Wave&, void*, int64_t, int64_t))
        : wave(wave), stretch(stretch), layers(wave.stack->depth) {}

    // With so many numbers of the memory for each thread.
    void run(double* memory, int64_t size, int64_t threads) {
        std::vector<std::thread> others;
        others.reserve(threads);
        try {
            for (int64_t i = 1; i < threads; i++) others.emplace_back(&Waves::go, this, memory + i * size);
        } catch (const std::exception&) {  // no more threads to be had: those there are do it
        }
        go(memory);
        for (std::thread& other : others) other.join();
    }

   private:
    struct Layer {
        std::atomic<int64_t> done{0};  // stretches
        std::atomic<bool> taken{false};
    };

    const Wave& wave;
    void (*const stretch)(const Wave&, void*, int64_t, int64_t);
    std::vector<Layer> layers;

    // Layers in the order in which they read from each other: the adjoint begins with the last.
    Layer& at(int64_t place) { return layers[wave.backward ? layers.size() - 1 - place : place]; }

    bool can_go_on(int64_t place) {
        const int64_t last = int64_t(layers.size()) - 1, done = at(place).done;
        return done < wave.stretches && (place == 0 || at(place - 1).done > done) &&
               (place == last || done - at(place + 1).done < AFLOAT);
    }

    // Whether it went a stretch.
    bool try_one(int64_t place, void* memory) {
        Layer& layer = at(place);
        if (!can_go_on(place) || layer.taken.exchange(true)) return false;
        const bool still = can_go_on(place);  // another thread may have gone it meanwhile
        if (still) {
            const int64_t done = layer.done;
            stretch(wave, memory, &layer - layers.data(), wave.backward ? wave.stretches - 1 - done : done);
            layer.done = done + 1;
        }
        layer.taken = false;
        return still;
    }

    // The layers that are behind go first: what they read is still in the cache.
    void go(void* memory) {
        const int64_t last = int64_t(layers.size()) - 1;
        int64_t waits = 0;  // one after the other
        while (at(last).done < wave.stretches) {
            bool went = false;
            for (int64_t place = last; place >= 0 && !went; place--) went = try_one(place, memory);
            waits = went ? 0 : waits + 1;
            if (waits > 64) std::this_thread::sleep_for(std::chrono::microseconds(20));
            else if (waits) std::this_thread::yield();
        }
    }
};
