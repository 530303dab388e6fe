/// Products of small contiguous matrices, for which Eigen's products have too much overhead.
#pragma once

#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Computes C = A B for R rows of C and N registers of columns; element (r, k) of A is at a[r *
/// a_row + k * a_col].
template <int R, int N>
void multiply_tile(const double *a, Index a_row, Index a_col, const double *b, Index cols,
                   Index depth, double *c) {
    using V = Vec<double>;
    V sum[R][N];
    for (int r = 0; r < R; ++r)
        for (int n = 0; n < N; ++n)
            sum[r][n] = V::broadcast(0);
    for (Index k = 0; k < depth; ++k) {
        V right[N];
        for (int n = 0; n < N; ++n)
            right[n] = V::load(b + k * cols + n * V::width);
        for (int r = 0; r < R; ++r) {
            const V left = V::broadcast(a[r * a_row + k * a_col]);
            for (int n = 0; n < N; ++n)
                sum[r][n] = fma(left, right[n], sum[r][n]);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int n = 0; n < N; ++n)
            sum[r][n].store(c + r * cols + n * V::width);
}

/// The same for any number of rows and columns that are multiples of 8.
inline void multiply(const double *a, Index a_row, Index a_col, const double *b, Index depth,
                     double *c, Index rows, Index cols) {
    constexpr int W = Vec<double>::width, R = Vec<double>::registers >= 32 ? 8 : 4;
    for (Index i = 0; i < rows; i += R) {
        Index j = 0;
        for (; j + 2 * W <= cols; j += 2 * W)
            multiply_tile<R, 2>(a + i * a_row, a_row, a_col, b + j, cols, depth, c + i * cols + j);
        if (j < cols)
            multiply_tile<R, 1>(a + i * a_row, a_row, a_col, b + j, cols, depth, c + i * cols + j);
    }
}

/// Computes C += A' B for N registers of columns of B, which has D rows.
template <int D, int N> void add_strip(const double *a, const double *b, double *c, Index width) {
    using V = Vec<double>;
    V right[D][N];
    for (int k = 0; k < D; ++k)
        for (int n = 0; n < N; ++n)
            right[k][n] = V::load(b + k * width + n * V::width);
    for (Index i = 0; i < width; ++i, c += width)
        for (int n = 0; n < N; ++n) {
            V sum = V::load(c + n * V::width);
            for (int k = 0; k < D; ++k)
                sum = fma(V::broadcast(a[k * width + i]), right[k][n], sum);
            sum.store(c + n * V::width);
        }
}

/// Computes C += A' B for square C and `depth` <= D rows of A and B. The depth is unpredictable, so
/// there is only one branch on it for all of C.
template <int D>
void add_product(Index depth, const double *a, const double *b, double *c, Index width) {
    constexpr int W = Vec<double>::width, N = Vec<double>::registers >= 32 ? 2 : 1;
    if constexpr (D > 0) {
        if (depth < D)
            return add_product<D - 1>(depth, a, b, c, width);
        Index j = 0;
        for (; j + N * W <= width; j += N * W)
            add_strip<D, N>(a, b + j, c + j, width);
        if (j < width)
            add_strip<D, 1>(a, b + j, c + j, width);
    }
}

} // namespace detail

METRICFAST_NAMESPACE_END
