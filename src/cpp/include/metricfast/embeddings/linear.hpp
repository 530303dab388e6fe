/// Linear embeddings: z = L x, forward and backward.
#pragma once

#include "metricfast/parallel.hpp"
#include "metricfast/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {
/// Rows of a product that one block of work computes.
inline constexpr Index embedding_block = 256;

template <class T> std::vector<T> column_means(View<const T> x) {
    std::vector<double> sum(static_cast<std::size_t>(x.cols), 0.0);
    for (Index i = 0; i < x.rows; ++i)
        for (Index c = 0; c < x.cols; ++c)
            sum[c] += static_cast<double>(x.row(i)[c]) / static_cast<double>(x.rows);
    return {sum.begin(), sum.end()};
}
} // namespace detail

inline RowMatrix<double> to_double(const Points &points) {
    RowMatrix<double> m(points.rows(), points.cols());
    for (Index i = 0; i < points.rows(); ++i)
        points.read_row(i, m.row(i).data());
    return m;
}

/// Z = (X - centre) L^T + offset in double, whatever the precision of X and L (p x d).
/// \param centre d values, subtracted from each row before the product (so off-centre data lose
///   nothing); \param offset p values.
inline RowMatrix<double> embed(const Points &x, const RowMatrix<double> &L,
                               const Eigen::RowVectorXd &centre, const Eigen::RowVectorXd &offset,
                               const Control &control) {
    require(x.cols() == L.cols(), "embed: points and components differ in width");
    RowMatrix<double> z(x.rows(), L.rows());
    constexpr Index block = detail::embedding_block;
    parallel_blocks((x.rows() + block - 1) / block, control, [&](Index b, Worker &) {
        const Index first = b * block, count = std::min(block, x.rows() - first);
        RowMatrix<double> rows(count, x.cols());
        for (Index i = 0; i < count; ++i)
            x.read_row(first + i, rows.row(i).data());
        rows.rowwise() -= centre;
        auto out = z.middleRows(first, count);
        out.noalias() = rows * L.transpose();
        out.rowwise() += offset;
    });
    return z;
}

/// Queries through U and database points through V (U = V = L: a Mahalanobis distance).
struct EmbeddedPair {
    RowMatrix<double> queries;
    RowMatrix<double> database;

    /// Both sides are shifted by the database's mean first, which leaves Ux - Vx' as it is.
    EmbeddedPair(const Points &x, const Points &y, const RowMatrix<double> &U,
                 const RowMatrix<double> &V, const Control &control) {
        require(U.rows() == V.rows(), "embed: U and V must have the same number of rows");
        require(x.cols() == U.cols(), "embed: queries and U differ in width");
        require(y.cols() == V.cols(), "embed: database and V differ in width");
        require(U.cols() == V.cols(), "embed: U and V differ in width");
        const auto means = y.visit([](auto v) {
            const auto m = detail::column_means(v);
            return std::vector<double>(m.begin(), m.end());
        });
        const Eigen::RowVectorXd centre =
            Eigen::Map<const Eigen::RowVectorXd>(means.data(), static_cast<Index>(means.size()));
        const Eigen::RowVectorXd none = Eigen::RowVectorXd::Zero(V.rows());
        queries = embed(x, U, centre, centre * (U - V).transpose(), control);
        database = embed(y, V, centre, none, control);
    }
};

/// Z = X L^T in T: the forward pass of training, for X that the caller has centred.
template <class T>
void linear_forward(View<const T> x, View<const T> L, View<T> z, const Control &control = {}) {
    require(x.cols == L.cols && z.rows == x.rows && z.cols == L.rows,
            "linear_forward: shapes must be X (n,d), L (p,d), Z (n,p)");
    constexpr Index block = detail::embedding_block;
    parallel_blocks((x.rows + block - 1) / block, control, [&](Index b, Worker &) {
        const Index first = b * block, count = std::min(block, x.rows - first);
        detail::multiply(View<const T>(x.row(first), count, x.cols, x.stride).eigen(),
                         L.eigen().transpose(),
                         View<T>(z.row(first), count, z.cols, z.stride).eigen());
    });
}

/// dL = dZ^T X, summed in double over fixed blocks so that the thread count does not matter.
template <class T>
RowMatrix<double> linear_backward(View<const T> dz, View<const T> x, const Control &control = {}) {
    require(x.rows == dz.rows, "linear_backward: dZ and X differ in their number of rows");
    constexpr Index block = 8 * detail::embedding_block, lanes = 8;
    const Index blocks = (x.rows + block - 1) / block;
    std::vector<RowMatrix<double>> sums(lanes);
    parallel_blocks(std::min<Index>(lanes, blocks), control, [&](Index lane, Worker &) {
        sums[lane] = RowMatrix<double>::Zero(dz.cols, x.cols);
        RowMatrix<T> part(dz.cols, x.cols);
        for (Index b = lane; b < blocks; b += lanes) {
            const Index first = b * block, count = std::min(block, x.rows - first);
            part.noalias() =
                View<const T>(dz.row(first), count, dz.cols, dz.stride).eigen().transpose() *
                View<const T>(x.row(first), count, x.cols, x.stride).eigen();
            sums[lane] += part.template cast<double>();
        }
    });
    RowMatrix<double> gradient = RowMatrix<double>::Zero(dz.cols, x.cols);
    for (const auto &sum : sums)
        if (sum.size() != 0)
            gradient += sum;
    return gradient;
}

METRICFAST_NAMESPACE_END
