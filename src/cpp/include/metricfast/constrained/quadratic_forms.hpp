/// Quadratic forms of many vectors, computed in tiles.
#pragma once

#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Computes forms_k = b_k^T S b_k.
/// \param S symmetric. \param panels the vectors, packed as lanes of panels as wide as a tile;
///   unused lanes are zero.
template <class T>
void quadratic_forms(const RowMatrix<T> &S, const T *panels,
                     Eigen::Array<T, Eigen::Dynamic, 1> &forms, Worker &worker) {
    constexpr int rows = TileShape<T>::rows, cols = TileShape<T>::cols, width = Vec<T>::width;
    const Index depth = S.rows(), chunks = (depth + rows - 1) / rows, count = forms.size();
    AlignedVector<T> packed(static_cast<std::size_t>(chunks * rows * depth), T(0));
    for (Index r = 0; r < depth; ++r) {
        T *out = &packed[r / rows * rows * depth + r % rows];
        out[r * rows] = S(r, r);
        for (Index c = r + 1; c < depth; ++c) // twice the part above the diagonal
            out[c * rows] = 2 * S(r, c);
    }
    for (Index first_lane = 0; first_lane < count; first_lane += cols) {
        const T *panel = panels + first_lane * depth;
        Vec<T> sum[2] = {Vec<T>::broadcast(T(0)), Vec<T>::broadcast(T(0))};
        for (Index first = 0; first < depth; first += rows) {
            Tile<T> tile;
            tile.fill(T(0));
            tile.accumulate_dot(depth - first, &packed[first * depth + first * rows],
                                panel + first * cols);
            unrolled<rows>([&](auto r) METRICFAST_INLINE {
                if (first + r < depth)
                    for (int half = 0; half < 2; ++half)
                        sum[half] =
                            fma(tile.v[r][half],
                                Vec<T>::load(panel + (first + r) * cols + half * width), sum[half]);
            });
        }
        T lanes[cols];
        for (int half = 0; half < 2; ++half)
            sum[half].store(lanes + half * width);
        std::copy(lanes, lanes + std::min<Index>(cols, count - first_lane), &forms[first_lane]);
        if (first_lane % (16 * cols) == 0)
            worker.advance();
    }
}

METRICFAST_NAMESPACE_END
