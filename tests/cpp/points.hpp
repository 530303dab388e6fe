/// Points for the tests, the same on every machine.
#pragma once

#include <cstdint>

#include "metricfast/core/types.hpp"

template <class T>
metricfast::RowMatrix<T> random_points(metricfast::Index n, metricfast::Index p) {
    metricfast::RowMatrix<T> points(n, p);
    std::uint64_t state = 88172645463325252u;
    for (T &x : points.reshaped()) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        x = static_cast<T>(static_cast<double>(state >> 11) / 9007199254740992.0 * 4 - 2);
    }
    return points;
}

template <class T> metricfast::View<const T> seen(const metricfast::RowMatrix<T> &points) {
    return metricfast::view(points);
}

template <class T>
double squared_distance_of(const metricfast::RowMatrix<T> &a, metricfast::Index i,
                           const metricfast::RowMatrix<T> &b, metricfast::Index j) {
    return (a.row(i).template cast<double>() - b.row(j).template cast<double>()).squaredNorm();
}
