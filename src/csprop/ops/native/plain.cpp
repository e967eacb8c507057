// For any processor.
#define TARGET plain
#include "rows.hpp"

extern const Functions plain_functions = plain::functions;
