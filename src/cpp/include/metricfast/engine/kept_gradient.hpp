/// Gradients where all weights are at hand: of one set of points in both roles, or of two sets.
#pragma once

#include "metricfast/engine/database_gradient.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With S = W + W^T: 2 (diag(S 1) Z - S Z) for distances, S Z for inner products; one product where
/// two roles by themselves take two.
/// \param weights of n rows and at least n columns, the first of which are W.
template <class T>
void symmetric_gradient(const EmbeddedSides<T> &sides, const RowMatrix<T> &weights, double factor,
                        View<T> grad, const Control &control) {
    const Index n = weights.rows();
    const Index rows = std::min<Index>(256, std::max<Index>(64, n / 8));
    parallel_blocks((n + rows - 1) / rows, control, [&](Index b, Worker &) {
        const Index first = b * rows, count = std::min(rows, n - first);
        RowMatrix<T> both = weights.block(first, 0, count, n);
        constexpr Index tile = 16; // whose lines of cache stay near while it is transposed
        for (Index j = 0; j < n; j += tile)
            for (Index r = 0; r < count; r += tile) {
                const Index height = std::min(tile, count - r), width = std::min(tile, n - j);
                both.block(r, j, height, width) +=
                    weights.block(j, first + r, width, height).transpose();
            }
        RowMatrix<T> product(count, grad.cols);
        detail::multiply<T>(view(both), view(sides.database()), view(product));
        for (Index r = 0; r < count; ++r) {
            const auto row = product.row(r).template cast<double>();
            auto out = grad.eigen().row(first + r);
            if (sides.kind == RowKind::inner_product)
                out = (factor * row).template cast<T>();
            else
                out = (2 * factor *
                       (both.row(r).template cast<double>().sum() *
                            sides.database().row(first + r).template cast<double>() -
                        row))
                          .template cast<T>();
        }
    });
}

namespace detail {

/// out = 2 factor (diag(sums) A - out) for distances, factor out for inner products; the rows of A
/// from `first` on.
template <class T>
void finish_gradient(RowKind kind, double factor, const std::vector<double> &sums,
                     const RowMatrix<T> &a, Index first, View<T> out) {
    for (Index r = 0; r < out.rows; ++r)
        for (Index k = 0; k < out.cols; ++k) {
            const double product = static_cast<double>(out.row(r)[k]);
            const double apart = sums[r] * static_cast<double>(a(first + r, k)) - product;
            out.row(r)[k] = static_cast<T>(kind == RowKind::inner_product ? factor * product
                                                                          : 2 * factor * apart);
        }
}

} // namespace detail

/// With weights W of a batch A and a database B: 2 (diag(W 1) A - W B) and 2 (diag(1 W) B - W^T A)
/// for distances, W B and W^T A for inner products.
/// \param weights of A's rows and at least as many columns as B has rows, the first of which are W.
template <class T>
void batch_gradient(const EmbeddedSides<T> &sides, const RowMatrix<T> &weights, double factor,
                    View<T> grad_queries, View<T> grad_database, const Control &control) {
    const Index n = grad_queries.rows, m = grad_database.rows;
    constexpr Index rows = 128, columns = 512;
    const Index of_queries = (n + rows - 1) / rows, of_database = (m + columns - 1) / columns;
    const View<const T> all = view(weights);
    parallel_blocks(of_queries + of_database, control, [&](Index b, Worker &) {
        std::vector<double> sums(static_cast<std::size_t>(std::max(rows, columns)), 0.0);
        if (b < of_queries) {
            const Index first = b * rows, count = std::min(rows, n - first);
            const View<T> out = grad_queries.middle_rows(first, count);
            detail::multiply<T>(all.block(first, 0, count, m), view(sides.database()), out);
            for (Index r = 0; r < count; ++r)
                sums[r] = sum_of(all.row(first + r), m);
            detail::finish_gradient(sides.kind, factor, sums, sides.queries(), first, out);
        } else {
            const Index first = (b - of_queries) * columns, count = std::min(columns, m - first);
            const View<T> out = grad_database.middle_rows(first, count);
            detail::multiply_tn<T>(all.block(0, first, n, count), view(sides.queries()), out);
            for (Index i = 0; i < n; ++i)
                for (Index r = 0; r < count; ++r)
                    sums[r] += static_cast<double>(all.row(i)[first + r]);
            detail::finish_gradient(sides.kind, factor, sums, sides.database(), first, out);
        }
    });
}

METRICFAST_NAMESPACE_END
