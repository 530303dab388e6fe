/// Rows of unit length: u = z / |z|, forward and backward.
#pragma once

#include <cmath>

#include "metricfast/core/parallel.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Rows of at most this length become zero, and so do their gradients.
inline constexpr double no_length = 1e-12;

/// Sums in order, so that results do not depend on the memory alignment.
template <class T> double inner_product(const T *a, const T *b, Index size) {
    double sum = 0;
    for (Index c = 0; c < size; ++c)
        sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
    return sum;
}

template <class F> void each_row(Index rows, const Control &control, F &&f) {
    constexpr Index block = 1024;
    parallel_blocks((rows + block - 1) / block, control, [&](Index b, Worker &) {
        for (Index i = b * block; i < std::min(rows, (b + 1) * block); ++i)
            f(i);
    });
}

} // namespace detail

/// Divides each row of z by its length, in place; `lengths` (n) receives the lengths.
template <class T>
void normalize_forward(View<T> z, Span<double> lengths, const Control &control = {}) {
    require(lengths.size() == z.rows, "normalize_forward: there must be one length per row");
    detail::each_row(z.rows, control, [&](Index i) {
        T *row = z.row(i);
        lengths[i] = std::sqrt(detail::inner_product<T>(row, row, z.cols));
        const double scale = lengths[i] <= detail::no_length ? 0.0 : 1 / lengths[i];
        for (Index c = 0; c < z.cols; ++c)
            row[c] = static_cast<T>(static_cast<double>(row[c]) * scale);
    });
}

/// The gradient by z from the gradient g by u, in place: (g - (u.g) u) / |z|.
template <class T>
void normalize_backward(View<const T> u, Span<const double> lengths, View<T> gradient,
                        const Control &control = {}) {
    require(u.rows == gradient.rows && u.cols == gradient.cols,
            "normalize_backward: points and gradient differ in shape");
    require(lengths.size() == u.rows, "normalize_backward: there must be one length per row");
    detail::each_row(u.rows, control, [&](Index i) {
        const T *unit = u.row(i);
        T *g = gradient.row(i);
        const double along = detail::inner_product<T>(unit, g, u.cols);
        const double scale = lengths[i] <= detail::no_length ? 0.0 : 1 / lengths[i];
        for (Index c = 0; c < u.cols; ++c)
            g[c] = static_cast<T>(
                (static_cast<double>(g[c]) - along * static_cast<double>(unit[c])) * scale);
    });
}

METRICFAST_NAMESPACE_END
