/// Products of wide matrices and few columns.
#pragma once

#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// The sums stay in registers. Eigen packs the wide matrix; these kernels read it once, in place.
template <class T> struct ThinProducts {
    using V = Vec<T>;
    static constexpr int W = V::width;
    static constexpr int most = V::registers >= 32 ? 4 : 2; ///< registers of columns

    /// Returns true if a is wide enough, and b has few enough columns.
    static bool fit(View<const T> a, View<const T> b) {
        return b.cols > 0 && b.cols <= most * W && a.rows >= 8 && a.cols >= 8 * W;
    }

    /// Computes out = a b.
    static void multiply(View<const T> a, View<const T> b, View<T> out) {
        run(b, out, [&](auto registers, View<const T> right, View<T> sums) {
            constexpr int N = registers, R = rows_at_once(N);
            by_rows<R>(a.rows,
                       [&](auto count, Index i) { multiply_rows<N, count>(a, right, sums, i); });
        });
    }

    /// Computes out += a^T b.
    static void add_transposed(View<const T> a, View<const T> b, View<T> out) {
        run(b, out, [&](auto registers, View<const T> right, View<T> sums) {
            constexpr int N = registers, R = rows_at_once(N);
            by_rows<R>(a.rows, [&](auto count, Index k) { add_rows<N, count>(a, right, sums, k); });
        });
    }

  private:
    static constexpr Index chunk = 256; ///< number of terms per partial sum

    /// Number of rows whose sums, N registers each, fit into the registers together with the
    /// operands.
    static constexpr int rows_at_once(int N) { return V::registers >= 32 ? 24 / N : 10 / N; }

    /// Calls body(R, first row) for groups of R rows, and of fewer rows for the rest.
    template <int R, class Body> static void by_rows(Index count, Body &&body, Index first = 0) {
        for (; first + R <= count; first += R)
            body(std::integral_constant<int, R>{}, first);
        if constexpr (R > 1)
            by_rows<R / 2>(count, body, first);
    }

    /// Calls body(number of registers of a row, b, out), with whole registers in each row.
    template <class Body> static void run(View<const T> b, View<T> out, Body &&body) {
        const Index width = (b.cols + W - 1) / W * W;
        RowMatrix<T> right, sums;
        View<const T> wide_b = b;
        View<T> wide_out = out;
        if (width != b.cols) {
            right.setZero(b.rows, width);
            right.leftCols(b.cols) = eigen(b);
            sums.setZero(out.rows, width);
            sums.leftCols(b.cols) = eigen(out);
            wide_b = view(right);
            wide_out = view(sums);
        }
        ::metricfast::unrolled<most>([&](auto n) {
            if (width == (n + 1) * W)
                body(std::integral_constant<int, n + 1>{}, wide_b, wide_out);
        });
        if (width != b.cols)
            eigen(out) = sums.leftCols(b.cols);
    }

    /// Rows of a b from row i on.
    template <int N, int R>
    static void multiply_rows(View<const T> a, View<const T> b, View<T> out, Index i) {
        V total[R][N];
        ::metricfast::unrolled<R>([&](auto r) METRICFAST_INLINE {
            ::metricfast::unrolled<N>([&](auto n)
                                          METRICFAST_INLINE { total[r][n] = V::broadcast(T(0)); });
        });
        for (Index first = 0; first < a.cols; first += chunk) {
            V sum[R][N];
            ::metricfast::unrolled<R>([&](auto r) METRICFAST_INLINE {
                ::metricfast::unrolled<N>(
                    [&](auto n) METRICFAST_INLINE { sum[r][n] = V::broadcast(T(0)); });
            });
            const T *left = a.row(i) + first;
            for (Index k = 0, count = std::min(chunk, a.cols - first); k < count; ++k) {
                const T *const at = b.row(first + k);
                V right[N];
                ::metricfast::unrolled<N>(
                    [&](auto n) METRICFAST_INLINE { right[n] = V::load(at + n * W); });
                ::metricfast::unrolled<R>([&](auto r) METRICFAST_INLINE {
                    const V x = V::broadcast(left[r * a.stride + k]);
                    ::metricfast::unrolled<N>(
                        [&](auto n) METRICFAST_INLINE { sum[r][n] = fma(x, right[n], sum[r][n]); });
                });
            }
            ::metricfast::unrolled<R>([&](auto r) METRICFAST_INLINE {
                ::metricfast::unrolled<N>(
                    [&](auto n) METRICFAST_INLINE { total[r][n] = total[r][n] + sum[r][n]; });
            });
        }
        ::metricfast::unrolled<R>([&](auto r) METRICFAST_INLINE {
            ::metricfast::unrolled<N>(
                [&](auto n) METRICFAST_INLINE { total[r][n].store(out.row(i + r) + n * W); });
        });
    }

    /// Computes out += a_k^T b_k for D rows, from row k on.
    template <int N, int D>
    static void add_rows(View<const T> a, View<const T> b, View<T> out, Index k) {
        V right[D][N];
        ::metricfast::unrolled<D>([&](auto d) METRICFAST_INLINE {
            ::metricfast::unrolled<N>(
                [&](auto n) METRICFAST_INLINE { right[d][n] = V::load(b.row(k + d) + n * W); });
        });
        const T *const left = a.row(k);
        for (Index j = 0; j < a.cols; ++j) {
            T *const to = out.row(j);
            V sum[N];
            ::metricfast::unrolled<N>([&](auto n)
                                          METRICFAST_INLINE { sum[n] = V::load(to + n * W); });
            ::metricfast::unrolled<D>([&](auto d) METRICFAST_INLINE {
                const V x = V::broadcast(left[d * a.stride + j]);
                ::metricfast::unrolled<N>(
                    [&](auto n) METRICFAST_INLINE { sum[n] = fma(x, right[d][n], sum[n]); });
            });
            ::metricfast::unrolled<N>([&](auto n) METRICFAST_INLINE { sum[n].store(to + n * W); });
        }
    }
};

} // namespace detail

METRICFAST_NAMESPACE_END
