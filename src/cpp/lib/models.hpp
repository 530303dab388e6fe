/// Kernels that models call, compiled in embeddings.cpp and search.cpp.
#pragma once

#include "metricfast/distance/paired.hpp"
#include "metricfast/embeddings/mlp.hpp"
#include "metricfast/embeddings/normalize.hpp"
#include "metricfast/embeddings/periodic.hpp"

METRICFAST_NAMESPACE_BEGIN

#define METRICFAST_MODEL_EMBEDDINGS(WHERE, T)                                                      \
    WHERE template void layers_forward<T>(View<const T>, const std::vector<Layer<T>> &,            \
                                          Activation, const std::vector<View<T>> &,                \
                                          const Control &);                                        \
    WHERE template void normalize_forward<T>(View<T>, Span<double>, const Control &);              \
    WHERE template void periodic_forward<T>(View<const T>, const PeriodicMap<T> &, View<T>,        \
                                            const Control &);

#define METRICFAST_MODEL_DISTANCES(WHERE, T)                                                       \
    WHERE template void paired_distances<T>(const Points &, const Points &, const PairList &,      \
                                            bool, Span<T>, const Control &);                       \
    WHERE template void paired_distances<T>(const Points &, const Points &, const PairList &,      \
                                            const RowMatrix<double> &, const RowMatrix<double> &,  \
                                            bool, Span<T>, const Control &);

METRICFAST_MODEL_EMBEDDINGS(extern, float)
METRICFAST_MODEL_EMBEDDINGS(extern, double)
METRICFAST_MODEL_DISTANCES(extern, float)
METRICFAST_MODEL_DISTANCES(extern, double)

METRICFAST_NAMESPACE_END
