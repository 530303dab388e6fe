/// Linear embeddings: z = L x, forward and backward.
#pragma once

#include "metricfast/core/work.hpp"
#include "metricfast/simd/packing.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {
/// Rows of a product per block of work.
inline constexpr Index embedding_block = 256;

/// Returns, for each column, the value nearest to zero if no other is more than twice as large,
/// else zero. Subtracting it is exact.
inline std::vector<double> exact_origin(const Points &points) {
    const auto width = static_cast<std::size_t>(points.cols());
    if (points.rows() == 0)
        return std::vector<double>(width);
    std::vector<double> least(width, std::numeric_limits<double>::infinity()), most(width);
    std::fill(most.begin(), most.end(), -std::numeric_limits<double>::infinity());
    points.visit([&](auto v) {
        for (Index i = 0; i < v.rows; ++i)
            for (Index c = 0; c < v.cols; ++c) {
                const double x = static_cast<double>(v.row(i)[c]);
                least[c] = std::min(least[c], x);
                most[c] = std::max(most[c], x);
            }
    });
    for (std::size_t c = 0; c < width; ++c)
        least[c] = least[c] > 0 && most[c] <= 2 * least[c]  ? least[c]
                   : most[c] < 0 && least[c] >= 2 * most[c] ? most[c]
                                                            : 0.0;
    return least;
}
} // namespace detail

inline RowMatrix<double> to_double(const Points &points) {
    RowMatrix<double> m(points.rows(), points.cols());
    for (Index i = 0; i < points.rows(); ++i)
        points.read_row(i, m.row(i).data());
    return m;
}

/// Computes Z = (X - origin) L^T in double, whatever the precision of X and L (p x d). Each value
/// is a sum in the order of the features, independent of the row, so equal points have equal
/// images.
inline RowMatrix<double> embed(const Points &x, const RowMatrix<double> &L,
                               std::vector<double> origin, const Control &control) {
    require(x.cols() == L.cols(), "embed: points and components differ in width");
    constexpr Index rows = TileShape<double>::rows, cols = TileShape<double>::cols;
    constexpr Index block = 20 * rows, width = Vec<double>::width;
    const Frame as_they_are{std::vector<double>(origin.size(), 0.0)}, frame{std::move(origin)};
    const PackedDatabase<double> map(Points(view(L)), as_they_are, identity_order(L.rows()), {0},
                                     {1, {}, {}});
    RowMatrix<double> z(x.rows(), L.rows());
    parallel_blocks((x.rows() + block - 1) / block, control, [&](Index b, Worker &) {
        AlignedVector<double> points(static_cast<std::size_t>(rows * x.cols()));
        std::vector<double> point;
        alignas(64) double values[rows][cols];
        for (Index first = b * block; first < std::min(x.rows(), (b + 1) * block); first += rows) {
            const Index count = std::min(rows, x.rows() - first);
            pack_panel<double>(x, frame, nullptr, first, count, rows, 1.0, points.data(), nullptr,
                               point);
            for (Index q = 0; q < map.panels(); ++q) {
                Tile<double> tile;
                tile.fill(0.0);
                tile.accumulate_dot(x.cols(), points.data(), map.panel(q));
                unrolled<rows>([&](auto r) METRICFAST_INLINE {
                    tile.v[r][0].store(values[r]);
                    tile.v[r][1].store(values[r] + width);
                });
                for (Index r = 0; r < count; ++r)
                    std::copy(values[r], values[r] + std::min(cols, L.rows() - q * cols),
                              &z(first + r, q * cols));
            }
        }
    });
    return z;
}

/// True if U and V are equal.
inline bool same_map(const RowMatrix<double> &U, const RowMatrix<double> &V) {
    return &U == &V || (U.rows() == V.rows() && U.cols() == V.cols() && U == V);
}

/// The origin that is subtracted from both sides before embedding, so that data far from zero keep
/// their precision. Nonzero only for a single map (U = V), and if the subtraction is exact.
inline std::vector<double> embedding_origin(const Points &database, const RowMatrix<double> &U,
                                            const RowMatrix<double> &V) {
    require(U.rows() == V.rows(), "embed: U and V must have the same number of rows");
    require(U.cols() == V.cols(), "embed: U and V differ in width");
    require(database.cols() == V.cols(), "embed: database and V differ in width");
    if (same_map(U, V))
        return detail::exact_origin(database);
    return std::vector<double>(static_cast<std::size_t>(database.cols()), 0.0);
}

/// Throws unless embedded points are finite.
inline void require_embedded(const RowMatrix<double> &z) {
    require(z.allFinite(),
            "embedded points are not finite: the points, or the maps L, U and V, hold NaN or are "
            "too large");
}

/// embed(); throws if the result overflows.
inline RowMatrix<double> embed_finite(const Points &x, const RowMatrix<double> &L,
                                      std::vector<double> origin, const Control &control) {
    RowMatrix<double> z = embed(x, L, std::move(origin), control);
    require_embedded(z);
    return z;
}

/// Queries through U and database points through V (U = V = L: a Mahalanobis distance).
struct EmbeddedPair {
    RowMatrix<double> queries;
    RowMatrix<double> database;

    EmbeddedPair(const Points &x, const Points &y, const RowMatrix<double> &U,
                 const RowMatrix<double> &V, const Control &control, bool centred = true) {
        const std::vector<double> origin =
            centred ? embedding_origin(y, U, V)
                    : std::vector<double>(static_cast<std::size_t>(y.cols()), 0.0);
        queries = embed_finite(x, U, origin, control);
        database = embed_finite(y, V, origin, control);
    }
};

/// Computes Z = X L^T in T, the forward pass of training. The caller centres X. A row of X that
/// holds NaN gives a row of NaN. Z may not overlap X or L.
template <class T>
void linear_forward(View<const T> x, View<const T> L, View<T> z, const Control &control = {}) {
    require(x.cols == L.cols && z.rows == x.rows && z.cols == L.rows,
            "linear_forward: shapes must be X (n,d), L (p,d), Z (n,p)");
    require(x.rows == 0 || (z.data != x.data && z.data != L.data),
            "linear_forward: Z may not be X or L, there is no form in place");
    constexpr Index block = detail::embedding_block;
    const double products = static_cast<double>(x.rows * x.cols) * static_cast<double>(L.rows);
    const Control how = worth_it(control, products / 2); // matrix products are fast
    parallel_blocks((x.rows + block - 1) / block, how, [&](Index b, Worker &) {
        const Index first = b * block, count = std::min(block, x.rows - first);
        detail::multiply_nt<T>(x.middle_rows(first, count), L, z.middle_rows(first, count));
    });
}

/// Computes gradient = dZ^T X, summed in double over fixed blocks, so that results do not depend on
/// the number of threads.
template <class T>
void linear_backward(View<const T> dz, View<const T> x, View<double> gradient,
                     const Control &control = {}) {
    require(x.rows == dz.rows, "linear_backward: dZ and X differ in their number of rows");
    require(gradient.rows == dz.cols && gradient.cols == x.cols,
            "linear_backward: the gradient must have the map's shape");
    constexpr Index lanes = 8, least = detail::embedding_block;
    // Limits a block to less than a second, for interruptions.
    const Index block = std::max(
        least, std::min(8 * least, (Index(1) << 31) / std::max<Index>(1, dz.cols * x.cols)));
    const Index blocks = (x.rows + block - 1) / block;
    std::vector<RowMatrix<double>> sums(lanes);
    const auto sum_lane = [&](Index lane, Worker &worker) {
        sums[lane] = RowMatrix<double>::Zero(dz.cols, x.cols);
        RowMatrix<T> part(dz.cols, x.cols);
        for (Index b = lane; b < blocks; b += lanes) {
            const Index first = b * block, count = std::min(block, x.rows - first);
            detail::multiply_tn<T>(dz.middle_rows(first, count), x.middle_rows(first, count),
                                   view(part));
            sums[lane] += part.template cast<double>();
            worker.advance();
        }
    };
    parallel_blocks(std::min<Index>(lanes, blocks), control, sum_lane, blocks);
    auto total = eigen(gradient);
    total.setZero();
    for (const auto &sum : sums)
        if (sum.size() != 0)
            total += sum;
}

METRICFAST_NAMESPACE_END
