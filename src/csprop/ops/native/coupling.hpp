// The coupling from the layer below: u_t += U Vᵀ z_t on each plane of each step, U and V (D, rank), and the adjoint
//   y = Vᵀ z      g_U += g_u yᵀ      g_y = Uᵀ g_u      g_V += z g_yᵀ      g_z += V g_y
// Rows of Uᵀ and Vᵀ lie one after the other: sums over channels are vectors.
#pragma once

#include "level.hpp"

namespace TARGET {

// Memory of a coupling for some planes.
template <typename real>
struct Coupled {
    const int64_t D, rank, planes, size = rank * D;
    real *const u, *const v = u + size, *const g_u = v + size, *const g_v = g_u + size;  // (rank, D)
    real *const y = g_v + size, *const g_y = y + planes * rank;                          // (planes, rank)

    Coupled(const Level<real>& level, int64_t T, real* memory)
        : D(level.size.D), rank(level.layer.rank), planes(T * level.size.m), u(memory) {
        for (int64_t d = 0; d < D; d++)
            for (int64_t r = 0; r < rank; r++)
                u[r * D + d] = level.coupling_u[d * rank + r], v[r * D + d] = level.coupling_v[d * rank + r];
    }

    void add_turned(const real* from, real* to) const {
        for (int64_t d = 0; d < D; d++)
            for (int64_t r = 0; r < rank; r++) to[d * rank + r] += from[r * D + d];
    }
};

template <typename real>
void couple(const Level<real>& level, const Entries<real>& entries, int64_t T, real* memory) {
    if (!level.layer.rank) return;
    const Coupled<real> with(level, T, memory);
    const int64_t D = with.D, rank = with.rank;
    project(with.v, static_cast<const real*>(nullptr), entries.z, with.y, with.planes, D, rank, D, rank, 1);
    add_products(entries.u, with.planes, D, with.y, rank, 1, with.u, rank, D, D);
}

template <typename real>
void couple_adjoint(const Level<real>& level, const Entries<real>& entries, int64_t T, real* memory) {
    if (!level.layer.rank) return;
    const Coupled<real> with(level, T, memory);
    const int64_t D = with.D, rank = with.rank, planes = with.planes;
    const real* none = nullptr;
    project(with.v, none, entries.z, with.y, planes, D, rank, D, rank, 1);
    project(with.u, none, entries.g_u, with.g_y, planes, D, rank, D, rank, 1);
    add_products<false>(with.g_u, rank, D, with.y, 1, rank, entries.g_u, planes, D, D);
    add_products<false>(with.g_v, rank, D, with.g_y, 1, rank, entries.z, planes, D, D);
    with.add_turned(with.g_u, level.g_coupling_u);
    with.add_turned(with.g_v, level.g_coupling_v);
    add_products(entries.g_z, planes, D, with.g_y, rank, 1, with.v, rank, D, D);
}

}  // namespace TARGET
