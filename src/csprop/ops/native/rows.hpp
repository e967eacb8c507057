// Everything of one row of a batch, for one kind of processor: a source file defines TARGET, its namespace,
// and includes this.
#pragma once

#include "block.hpp"
#include "scan.hpp"
#include "stream.hpp"

namespace TARGET {

template <bool complex, bool shared, typename real>
void scan_rows(const Scan& scan, real* memory, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        if (scan.g_h) scan_backward_row<complex, shared>(scan, memory, row);
        else scan_forward_row<complex, shared>(scan, memory, row);
    }
}

template <typename real>
void scan_either(const Scan& scan, void* memory, int64_t first, int64_t last) {
    const bool shared = scan.columns == 1;
    real* zero = static_cast<real*>(memory);
    std::memset(zero, 0, 2 * scan.width * sizeof(real));
    if (scan.planes == 2 && shared) scan_rows<true, true>(scan, zero, first, last);
    else if (scan.planes == 2) scan_rows<true, false>(scan, zero, first, last);
    else if (shared) scan_rows<false, true>(scan, zero, first, last);
    else scan_rows<false, false>(scan, zero, first, last);
}

const Functions functions = {
    [](const Stack& stack, void* memory, int64_t first, int64_t last) {
        if (stack.wide) stack_either<double>(stack, memory, first, last);
        else stack_either<float>(stack, memory, first, last);
    },
    [](const Scan& scan, void* memory, int64_t first, int64_t last) {
        if (scan.wide) scan_either<double>(scan, memory, first, last);
        else scan_either<float>(scan, memory, first, last);
    },
    [](const Stream& stream, int64_t token) {
        if (stream.wide) stream_step<double>(stream, token);
        else stream_step<float>(stream, token);
    },
};

}  // namespace TARGET
