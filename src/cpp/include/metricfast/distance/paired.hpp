/// Distances between given pairs of rows, always from differences, so that nothing cancels.
#pragma once

#include "metricfast/distance/types.hpp"
#include "metricfast/embeddings/linear.hpp"
#include "metricfast/simd/packing.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {
inline constexpr Index pair_block = 256;

/// The length, or its square, of z[0 .. count) / unit; infinite if it overflows T.
template <class T, class Z> T length(Index count, Z &&z, double unit, bool squared) {
    const ScaledSquare found = squared_length(count, z);
    return unscaled<T>(found.square, unit * found.scale, squared);
}

/// Calls f(first, count) for blocks of pairs.
template <class F> void for_pair_blocks(Index count, const Control &control, F &&f) {
    parallel_blocks((count + pair_block - 1) / pair_block, control, [&](Index b, Worker &) {
        f(b * pair_block, std::min(pair_block, count - b * pair_block));
    });
}
} // namespace detail

/// Computes out[i], the distance of the i-th pair, without a map. Distances that overflow T are
/// infinite.
template <class T>
void paired_distances(const Points &x, const Points &y, const PairList &list, bool squared,
                      Span<T> out, const Control &control = {}) {
    require(x.cols() == y.cols(), "paired_distances: X and Y differ in width");
    list.check(x, y);
    require(out.size() == list.count, "paired_distances: out must have one value per pair");
    require_finite(x, "coordinates must be finite");
    require_finite(y, "coordinates must be finite");
    // Between these bounds, no square of a difference has underflowed or overflowed in T.
    const T least = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon() *
                    static_cast<T>(x.cols() + 1);
    const T largest = std::numeric_limits<T>::max();
    x.visit([&](auto u) {
        y.visit([&](auto v) {
            detail::for_pair_blocks(list.count, control, [&](Index first, Index count) {
                for (Index i = first; i < first + count; ++i) {
                    const auto *a = u.row(list.left(i, u.rows));
                    const auto *b = v.row(list.right(i, v.rows));
                    if constexpr (std::is_same_v<decltype(a), const T *> &&
                                  std::is_same_v<decltype(b), const T *>) {
                        const T sum = squared_distance(a, b, u.cols);
                        if (sum > least && sum < largest) {
                            out[i] = unscaled<T>(static_cast<double>(sum), 1.0, squared);
                            continue;
                        }
                    }
                    // Half differences cannot overflow.
                    const auto half = [&](Index k) {
                        return static_cast<double>(a[k]) / 2 - static_cast<double>(b[k]) / 2;
                    };
                    out[i] = detail::length<T>(u.cols, half, 0.5, squared);
                }
            });
        });
    });
}

/// Computes out[i] = ||U x - V y|| for the i-th pair. With one map (U = V) the difference x - y is
/// formed first, unless many pairs share points: then each point is embedded once.
template <class T>
void paired_distances(const Points &x, const Points &y, const PairList &list,
                      const RowMatrix<double> &U, const RowMatrix<double> &V, bool squared,
                      Span<T> out, const Control &control = {}) {
    require(U.rows() == V.rows(), "paired_distances: U and V must have the same number of rows");
    require(x.cols() == U.cols() && y.cols() == V.cols(),
            "paired_distances: points and components differ in width");
    list.check(x, y);
    require(out.size() == list.count, "paired_distances: out must have one value per pair");
    if (list.pairs != nullptr && list.count > x.rows() + y.rows()) {
        const EmbeddedPair z(x, y, U, V, control);
        paired_distances<T>(Points(view(z.queries)), Points(view(z.database)), list, squared, out,
                            control);
        return;
    }
    const bool one_map = same_map(U, V);
    const double scale =
        one_map ? difference_scale(x, y)
                : magnitude_scale(std::max(Extremes(x).magnitude(), Extremes(y).magnitude()));
    detail::for_pair_blocks(list.count, control, [&](Index first, Index count) {
        RowMatrix<double> a(count, x.cols()), b(count, y.cols()), z(count, U.rows());
        for (Index i = 0; i < count; ++i) {
            x.read_row(list.left(first + i, x.rows()), a.row(i).data());
            y.read_row(list.right(first + i, y.rows()), b.row(i).data());
        }
        if (one_map) {
            a = (a - b) * scale;
            detail::multiply_nt<double>(view(a), view(U), view(z));
        } else {
            a *= scale;
            b *= -scale;
            detail::multiply_nt<double>(view(a), view(U), view(z));
            detail::add_product_nt<double>(view(b), view(V), view(z));
        }
        require_embedded(z / scale);
        for (Index i = 0; i < count; ++i)
            out[first + i] =
                detail::length<T>(z.cols(), [&](Index c) { return z(i, c); }, scale, squared);
    });
}

METRICFAST_NAMESPACE_END
