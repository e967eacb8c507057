// From the labelled rows of a prefix tree to a machine.
#include <new>

#include "compilers.hpp"
#include "merging.hpp"
#include "polishing.hpp"

// -2 where there is no memory.
template <typename Search, typename Arguments>
static int64_t attempt(const Arguments& arguments) {
    try {
        return Search(arguments).run();
    } catch (const std::bad_alloc&) {
        return -2;
    }
}

CALLED_BY_PYTHON int64_t csprop_merge(const Merge* merge) { return attempt<Merging>(*merge); }
CALLED_BY_PYTHON int64_t csprop_polish(const Polish* polish) { return attempt<Polishing>(*polish); }
