/// The objective of MMC (Xing et al. 2002), and the scatter in its constraint.
#pragma once

#include "metricfast/constrained/differences.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {
/// Calls f(metric) with the metric of a map L, or of a diagonal map given as a row (1 x d).
template <class F> ValueAndScatter with_metric(View<const double> L, bool diagonal, F &&f) {
    require(!diagonal || L.rows == 1, "a diagonal map must be a row");
    return diagonal ? f(DiagonalMetric(L)) : f(FullMetric(L));
}
} // namespace detail

/// sum_i ||L v_i|| over the differences v_i of pairs; the scatter is twice its gradient in
/// M = L^T L, sum_i v_i v_i^T / ||L v_i||. Pairs of length 0 are left out.
inline ValueAndScatter sum_of_distances(const Points &points, const TupleList &pairs,
                                        View<const double> L, bool diagonal,
                                        const Control &control = {}) {
    const auto weigh = [](Index, const double *length, double *weight) {
        *weight = *length > 0 ? 1 / *length : 0.0;
        return *length;
    };
    return detail::with_metric(L, diagonal, [&](const auto &metric) {
        return detail::sum_differences(points, pairs, metric, weigh, control);
    });
}

/// sum_i ||L v_i||^2; the scatter is sum_i v_i v_i^T.
inline ValueAndScatter sum_of_squared_distances(const Points &points, const TupleList &pairs,
                                                View<const double> L, bool diagonal,
                                                const Control &control = {}) {
    const auto weigh = [](Index, const double *length, double *weight) {
        *weight = 1;
        return *length * *length;
    };
    return detail::with_metric(L, diagonal, [&](const auto &metric) {
        return detail::sum_differences(points, pairs, metric, weigh, control);
    });
}

METRICFAST_NAMESPACE_END
