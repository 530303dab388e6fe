/// Gradients from a matrix of all weights, for one set of points in both roles or for two sets.
#pragma once

#include "metricfast/engine/database_gradient.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Computes out = a + b^T in square tiles of the register width.
template <class T> void sum_with_transposed(View<const T> a, View<const T> b, View<T> out) {
    constexpr int N = Vec<T>::width;
    const Index rows = out.rows / N * N, cols = out.cols / N * N;
    const auto left = eigen(a), right = eigen(b);
    auto sum = eigen(out);
    for (Index c = 0; c < cols; c += N)
        for (Index r = 0; r < rows; r += N) {
            Eigen::Matrix<T, N, N, Eigen::RowMajor> tile = right.template block<N, N>(c, r);
            tile.transposeInPlace(); // in registers
            sum.template block<N, N>(r, c) = left.template block<N, N>(r, c) + tile;
        }
    for (Index r = 0; r < out.rows; ++r)
        for (Index c = r < rows ? cols : 0; c < out.cols; ++c)
            out.row(r)[c] = a.row(r)[c] + b.row(c)[r];
}

/// Computes out = 2 factor (diag(sums) A - out) for distances and out = factor out for inner
/// products, with the rows `first` and above of A.
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

/// Computes 2 (diag(S 1) Z - S Z) for distances and S Z for inner products, with S = W + W^T. This
/// takes one product, where separate gradients of both roles take two.
/// \param weights n rows and lines_apart(n) columns, the first n of which are W.
template <class T>
void symmetric_gradient(const EmbeddedSides<T> &sides, const RowMatrix<T> &weights, double factor,
                        View<T> grad, const Control &control) {
    const Index n = weights.rows();
    constexpr Index rows = 64;
    const View<const T> all = view(weights);
    parallel_blocks((n + rows - 1) / rows, control, [&](Index b, Worker &) {
        const Index first = b * rows, count = std::min(rows, n - first);
        RowMatrix<T> room(count, weights.cols());
        const View<T> both = view(room).block(0, 0, count, n);
        detail::sum_with_transposed<T>(all.block(first, 0, count, n), all.block(0, first, n, count),
                                       both);
        const View<T> out = grad.middle_rows(first, count);
        detail::multiply<T>(both, view(sides.database()), out);
        std::vector<double> sums(static_cast<std::size_t>(count));
        for (Index r = 0; r < count; ++r)
            sums[r] = sum_of(both.row(r), n);
        detail::finish_gradient(sides.kind, factor, sums, sides.database(), first, out);
    });
}

/// Computes the gradients of a batch A and a database B with weights W: 2 (diag(W 1) A - W B) and 2
/// (diag(1 W) B - W^T A) for distances, W B and W^T A for inner products.
/// \param weights one row per row of A. The first columns, one per row of B, are W.
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
