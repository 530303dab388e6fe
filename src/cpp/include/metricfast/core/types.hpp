/// Eigen matrices and views of them.
#pragma once

#include <cmath>
#include <limits>

#include "metricfast/core/config.hpp" // before Eigen, because of its pragmas
#include "metricfast/core/large_pages.hpp"
#include "metricfast/core/views.hpp"

#include <Eigen/Core>

#if !EIGEN_VERSION_AT_LEAST(3, 4, 0)
#error "metricfast needs Eigen 3.4 or newer"
#endif

METRICFAST_NAMESPACE_BEGIN

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Resizes a matrix or an array that is reused; its values are arbitrary. Eigen's resize() frees
/// the old memory before it allocates. If the allocation fails, the destructor frees the old memory
/// a second time. setZero(rows, cols) and an assignment of another size have the same fault.
template <class Matrix> void renew(Matrix &matrix, Index rows, Index cols = 1) {
    const bool fits = matrix.size() == rows * cols;
    if (!fits)
        matrix = Matrix();
    matrix.resize(rows, cols);
    if (!fits)
        prefer_large_pages(matrix.data(),
                           static_cast<std::size_t>(rows * cols) * sizeof(typename Matrix::Scalar));
}

/// Returns a row stride for m values that is an odd number of cache lines. With a power of two, all
/// rows would compete for the same lines.
template <class T> Index lines_apart(Index m) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    return ((m + line - 1) / line | 1) * line;
}

/// Maps a view as an Eigen matrix.
template <class T> auto eigen(const View<T> &v) {
    using Plain = RowMatrix<std::remove_const_t<T>>;
    using Target = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
    return Eigen::Map<Target, 0, Eigen::OuterStride<>>(v.data, v.rows, v.cols,
                                                       Eigen::OuterStride<>(v.stride));
}

/// Throws unless all coordinates are finite.
inline void require_finite(const Points &points, const char *message) {
    points.visit([&](auto v) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(v.data)>>;
        for (Index i = 0; i < v.rows; ++i) {
            const T *row = v.row(i);
            int bad = 0;
            for (Index c = 0; c < v.cols; ++c)
                bad |= std::abs(row[c]) <= std::numeric_limits<T>::max() ? 0 : 1; // NaN too
            require(bad == 0, message);
        }
    });
}

METRICFAST_NAMESPACE_END
