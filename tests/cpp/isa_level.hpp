#pragma once

#include "metricfast/core/config.hpp"

METRICFAST_NAMESPACE_BEGIN

#if defined(__GNUC__)
__attribute__((noinline)) // a call, so that the linker has something to merge
#endif
inline int isa_level() {
    return METRICFAST_ISA_LEVEL;
}

METRICFAST_NAMESPACE_END
