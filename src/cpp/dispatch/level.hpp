/// The interface between code that runs on any processor and the library of one instruction set
/// level.
#pragma once

#include "c/functions.hpp"
#include "metricfast/library.hpp"

#ifdef _WIN32
#define METRICFAST_LEVEL_EXPORT __declspec(dllexport)
#else
#define METRICFAST_LEVEL_EXPORT __attribute__((visibility("default")))
#endif

namespace metricfast {

/// The functions of a level.
struct Level {
    const Kernels &kernels;
    const LevelFunctions &functions; ///< the functions of metricfast.h
};

/// The only exported symbol of a level's library.
#define METRICFAST_LEVEL_SYMBOL "metricfast_level"

} // namespace metricfast
