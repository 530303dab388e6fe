/// Points for the tests, the same on every machine, and the comparison of matrices.
#pragma once

#include <cstdint>

#include "check.hpp"
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

/// Matrices of one shape that differ by at most `tolerance`, relative to the largest entry.
template <class A, class B> void check_same(const A &found, const B &expected, double tolerance) {
    CHECK(found.rows() == expected.rows() && found.cols() == expected.cols());
    CHECK_NEAR((found - expected).cwiseAbs().maxCoeff(), 0.0,
               tolerance * (1 + expected.cwiseAbs().maxCoeff()));
}
