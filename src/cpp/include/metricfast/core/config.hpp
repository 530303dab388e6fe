/// The instruction set of this translation unit, and a namespace named after it.
///
/// Templates and inline functions compiled for two instruction sets are different functions; the
/// inline namespace keeps this library's functions apart. Functions of Eigen have no such
/// namespace: a program with several instruction sets needs one shared library with hidden
/// visibility for each, like the Python modules.
#pragma once

#include "metricfast/version.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) &&                      \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
#define METRICFAST_ISA_LEVEL 4
#define METRICFAST_ISA_NAMESPACE v4
#elif defined(__AVX2__) && (defined(__FMA__) || defined(_MSC_VER)) // MSVC has no __FMA__
#define METRICFAST_ISA_LEVEL 3
#define METRICFAST_ISA_NAMESPACE v3
#elif defined(__SSE4_2__)
#define METRICFAST_ISA_LEVEL 2
#define METRICFAST_ISA_NAMESPACE v2
#else
#define METRICFAST_ISA_LEVEL 0
#define METRICFAST_ISA_NAMESPACE base
#endif

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||           \
    defined(_M_FP_FAST)
#error "metricfast detects NaN and infinities by arithmetic: compile without -ffast-math (/fp:fast)"
#endif

#if METRICFAST_ISA_LEVEL == 4 && defined(__GNUC__) && !defined(__clang__)
// Before 13, GCC's intrinsics use undefined registers, which gives warnings wherever they are used.
// Only disabling the warnings at their definition avoids these.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#define METRICFAST_NAMESPACE_BEGIN                                                                 \
    namespace metricfast {                                                                         \
    inline namespace METRICFAST_ISA_NAMESPACE {
#define METRICFAST_NAMESPACE_END                                                                   \
    }                                                                                              \
    }
