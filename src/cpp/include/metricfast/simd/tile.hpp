/// The packed, register-blocked micro-kernel of all computations on pairs.
///
/// Database points are packed into panels of `TileShape::cols` points, queries into micro-panels of
/// `TileShape::rows`; a tile of rows x cols results stays in registers until its consumer has used
/// it.
#pragma once

#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> struct TileShape {
    static constexpr int rows = Vec<T>::registers == 32 ? 12 : 6;
    static constexpr int cols = 2 * Vec<T>::width;
};

/// rows x cols results in registers, optionally with fewer rows than the full shape.
template <class T, int Rows = TileShape<T>::rows> struct Tile {
    using Shape = TileShape<T>;
    static constexpr int rows = Rows;
    static constexpr int width = Vec<T>::width;
    Vec<T> v[rows][2];

    /// Sets every row to the same `cols` values.
    METRICFAST_INLINE void fill_rows(const T *values) {
        const Vec<T> v0 = Vec<T>::load(values), v1 = Vec<T>::load(values + width);
        unrolled<rows>([&](auto r) METRICFAST_INLINE {
            v[r][0] = v0;
            v[r][1] = v1;
        });
    }

    METRICFAST_INLINE void add(const Tile &other) {
        unrolled<rows>([&](auto r) METRICFAST_INLINE {
            v[r][0] = v[r][0] + other.v[r][0];
            v[r][1] = v[r][1] + other.v[r][1];
        });
    }

    METRICFAST_INLINE void fill(T value) {
        const Vec<T> x = Vec<T>::broadcast(value);
        unrolled<rows>([&](auto r) METRICFAST_INLINE { v[r][0] = v[r][1] = x; });
    }

    /// v[r][c] += sum_k a[k][r] * b[k][c], k = 0..depth-1 in that order, for packed panels a, b;
    /// rows of `a` may be `Stride` apart.
    template <int Stride = rows>
    METRICFAST_INLINE void accumulate_dot(Index depth, const T *a, const T *b) {
        accumulate<Stride>(depth, a, b, [](Vec<T> x, Vec<T> y, Vec<T> sum) METRICFAST_INLINE {
            return fma(x, y, sum);
        });
    }

    /// v[r][c] += sum_k (a[k][r] - b[k][c])^2: slower, but exact where the product form cancels. In
    /// double, it rounds like exact_squared_distance().
    METRICFAST_INLINE void accumulate_squared_difference(Index depth, const T *a, const T *b) {
        accumulate<rows>(depth, a, b, [](Vec<T> x, Vec<T> y, Vec<T> sum) METRICFAST_INLINE {
            const Vec<T> d = x - y;
            if constexpr (std::is_same_v<T, float>)
                return fma(d, d, sum);
            else
                return sum + d * d;
        });
    }

  private:
    template <int Stride, class Step>
    METRICFAST_INLINE void accumulate(Index depth, const T *a, const T *b, Step step) {
        // A local copy whose address is not used, so that compilers keep it in registers.
        Vec<T> acc[rows][2];
        unrolled<rows>([&](auto r) METRICFAST_INLINE {
            acc[r][0] = v[r][0];
            acc[r][1] = v[r][1];
        });
        for (Index k = 0; k < depth; ++k, a += Stride, b += Shape::cols) {
            const Vec<T> b0 = Vec<T>::load(b), b1 = Vec<T>::load(b + width);
            unrolled<rows>([&](auto r) METRICFAST_INLINE {
                const Vec<T> ar = Vec<T>::broadcast(a[r]);
                acc[r][0] = step(ar, b0, acc[r][0]);
                acc[r][1] = step(ar, b1, acc[r][1]);
            });
        }
        unrolled<rows>([&](auto r) METRICFAST_INLINE {
            v[r][0] = acc[r][0];
            v[r][1] = acc[r][1];
        });
    }
};

METRICFAST_NAMESPACE_END
