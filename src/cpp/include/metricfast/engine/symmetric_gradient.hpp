/// The gradient of one set of points in both roles, where all weights are at hand.
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

METRICFAST_NAMESPACE_END
