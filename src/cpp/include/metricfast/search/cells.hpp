/// Cells of a database: its points grouped by the nearest of a few centroids.
///
/// Points in tight clusters are near their centroids, so the difference from the centroid is small,
/// and 8 bits represent it well. A search skips cells that are too far from a query.
#pragma once

#include <random>

#include "metricfast/simd/packing.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Rows of a database by cell.
struct Cells {
    std::vector<std::int64_t> order; ///< rows, cell by cell, ascending in each
    std::vector<Index> starts;       ///< index in `order` of each cell's first row
    RowMatrix<double> centroids;     ///< (cells, depth), in the frame; empty for a single cell
};

/// Centroids in float, and the search for the nearest of each point.
class Centroids {
  public:
    explicit Centroids(RowMatrix<float> points) : points_(std::move(points)) { measure(); }

    Index count() const { return points_.rows(); }
    const RowMatrix<float> &points() const { return points_; }

    /// The nearest centroid of each row.
    /// \param products reusable memory.
    template <class Out>
    void nearest(const RowMatrix<float> &rows, RowMatrix<float> &products, Out *out) const {
        renew(products, rows.rows(), count());
        detail::multiply_nt<float>(view(rows), view(points_), view(products));
        for (Index i = 0; i < rows.rows(); ++i) {
            Index best = 0;
            (2 * products.row(i) - norms_.transpose()).maxCoeff(&best);
            out[i] = static_cast<Out>(best);
        }
    }

    /// Moves each centroid to the mean of its nearest rows.
    void improve(const RowMatrix<float> &rows) {
        RowMatrix<float> products;
        std::vector<Index> cell(static_cast<std::size_t>(rows.rows()));
        nearest(rows, products, cell.data());
        RowMatrix<double> sums = RowMatrix<double>::Zero(count(), rows.cols());
        std::vector<Index> sizes(static_cast<std::size_t>(count()), 0);
        for (Index i = 0; i < rows.rows(); ++i) {
            sums.row(cell[i]) += rows.row(i).cast<double>();
            ++sizes[cell[i]];
        }
        for (Index c = 0; c < count(); ++c)
            if (sizes[c] > 0)
                points_.row(c) = (sums.row(c) / static_cast<double>(sizes[c])).cast<float>();
        measure();
    }

    /// The share of the squared length of rows that remains after subtracting the nearest centroid.
    /// A ratio of medians, so that a few distant rows do not matter.
    double left(const RowMatrix<float> &rows) const {
        RowMatrix<float> products;
        std::vector<Index> cell(static_cast<std::size_t>(rows.rows()));
        nearest(rows, products, cell.data());
        const Index half = rows.rows() / 2;
        std::vector<float> all, rest;
        for (Index i = 0; i < rows.rows(); ++i) {
            all.push_back(rows.row(i).squaredNorm());
            rest.push_back((rows.row(i) - points_.row(cell[i])).squaredNorm());
        }
        std::nth_element(all.begin(), all.begin() + half, all.end());
        std::nth_element(rest.begin(), rest.begin() + half, rest.end());
        return all[half] > 0 ? static_cast<double>(rest[half] / all[half]) : 1;
    }

  private:
    void measure() { norms_ = points_.rowwise().squaredNorm(); }

    RowMatrix<float> points_;
    Eigen::VectorXf norms_;
};

namespace detail {

/// Reads rows of points in the frame, in float.
/// \param each returns the number of the i-th row.
template <class Row>
void read_framed(const Points &points, const Frame &frame, Index count, Row &&row,
                 RowMatrix<float> &out) {
    out.resize(count, points.cols());
    points.visit([&](auto v) {
        for (Index i = 0; i < count; ++i) {
            const auto *x = v.row(static_cast<Index>(row(i)));
            for (Index k = 0; k < v.cols; ++k)
                out(i, k) = static_cast<float>(frame.apply(static_cast<double>(x[k]), k));
        }
    });
}

} // namespace detail

/// The nearest centroid of each given row.
/// \param ids null for all rows.
inline std::vector<std::int64_t> nearest_cells(const Points &points, const Frame &frame,
                                               const std::vector<std::int64_t> *ids,
                                               const Centroids &centroids, const Control &control) {
    const Index n = ids != nullptr ? static_cast<Index>(ids->size()) : points.rows();
    std::vector<std::int64_t> cell(static_cast<std::size_t>(n));
    constexpr Index block = 256;
    const Index work = n * points.cols() * centroids.count();
    parallel_blocks((n + block - 1) / block, worth_it(control, static_cast<double>(work) / 4),
                    [&](Index b, Worker &) {
                        RowMatrix<float> rows, products;
                        const Index first = b * block, count = std::min(block, n - first);
                        const auto row = [&](Index i) {
                            return ids != nullptr ? (*ids)[first + i] : first + i;
                        };
                        detail::read_framed(points, frame, count, row, rows);
                        centroids.nearest(rows, products, &cell[first]);
                    });
    return cell;
}

namespace detail {

/// Draws rows that are far apart, by k-means++ (Arthur and Vassilvitskii, 2007): the probability is
/// proportional to the squared distance from earlier rows.
inline RowMatrix<float> spread_rows(const RowMatrix<float> &rows, Index count) {
    RowMatrix<float> chosen(count, rows.cols());
    Eigen::ArrayXf apart = Eigen::ArrayXf::Constant(rows.rows(), std::numeric_limits<float>::max());
    const Eigen::VectorXf norms = rows.rowwise().squaredNorm();
    RowMatrix<float> products(rows.rows(), 1);
    std::mt19937_64 random(0);
    Index next = 0;
    for (Index c = 0; c < count; ++c) {
        chosen.row(c) = rows.row(next);
        detail::multiply_nt<float>(view(rows), view(chosen).middle_rows(c, 1), view(products));
        apart = apart.min((norms - 2 * products.col(0)).array() + norms[next]).max(0.0f);
        double drawn =
            std::ldexp(static_cast<double>(random() >> 11), -53) * static_cast<double>(apart.sum());
        for (next = 0; next + 1 < rows.rows(); ++next)
            if ((drawn -= static_cast<double>(apart[next])) < 0)
                break;
    }
    return chosen;
}

/// Centroids of some rows, from a sample spread over them.
/// \param each rows of the sample per centroid.
template <class Row>
Centroids centroids_of(const Points &points, const Frame &frame, Index n, Row &&row, Index count,
                       Index each, int rounds) {
    const Index size = std::min(n, count * each);
    RowMatrix<float> sample;
    read_framed(points, frame, size, [&](Index i) { return row(i * n / size); }, sample);
    Centroids centroids(spread_rows(sample, count));
    for (int round = 0; round < rounds; ++round)
        centroids.improve(sample);
    return centroids;
}

/// The share of squared lengths that centroids leave, estimated on points outside of their sample.
inline double left_by_cells(const Points &points, const Frame &frame) {
    constexpr Index count = 64, each = 8;
    const Index half = points.rows() / 2;
    const auto even = [](Index i) { return 2 * i; };
    const auto odd = [](Index i) { return 2 * i + 1; };
    const Centroids centroids = centroids_of(points, frame, half, even, count, each, 2);
    RowMatrix<float> others;
    const Index size = std::min(half, count * each / 2);
    read_framed(points, frame, size, [&](Index i) { return odd(i * half / size); }, others);
    return centroids.left(others);
}

} // namespace detail

/// Divides points in clusters into cells; the cell of points without clusters
/// is `whole`.
///
/// Points are divided in two stages, so that each is compared with few centroids.
inline Cells find_cells(const Points &points, const Frame &frame, const Cells &whole,
                        const Control &control) {
    constexpr Index least = 4096;    // minimum number of points
    constexpr double diffuse = 0.45; // above this remaining share, points have no clusters
    const Index n = points.rows();
    if (n < least || detail::left_by_cells(points, frame) >= diffuse)
        return whole;
    const auto row = [](Index i) { return i; };
    const Index count = std::min<Index>(256, n / 400);
    const auto coarse = static_cast<Index>(std::sqrt(static_cast<double>(count)));
    const Centroids first = detail::centroids_of(points, frame, n, row, coarse, 64, 4);
    const std::vector<std::int64_t> coarse_cell =
        nearest_cells(points, frame, nullptr, first, control);
    std::vector<Index> starts;
    const std::vector<std::int64_t> order = order_by_label(coarse_cell, coarse, &starts);
    starts.push_back(n);
    Cells cells;
    std::vector<float> centroids;
    for (Index c = 0; c < coarse; ++c) {
        const std::vector<std::int64_t> rows(order.begin() + starts[c],
                                             order.begin() + starts[c + 1]);
        const auto size = static_cast<Index>(rows.size());
        if (size == 0)
            continue;
        const Index finer = std::max<Index>(1, (size * count + n / 2) / n);
        const auto row_of_cell = [&](Index i) { return rows[i]; };
        const Centroids second =
            detail::centroids_of(points, frame, size, row_of_cell, finer, 32, 4);
        const std::vector<std::int64_t> cell =
            nearest_cells(points, frame, &rows, second, control.silent());
        std::vector<Index> begins;
        for (const std::int64_t at : order_by_label(cell, finer, &begins))
            cells.order.push_back(rows[at]);
        for (const Index begin : begins)
            cells.starts.push_back(starts[c] + begin);
        centroids.insert(centroids.end(), second.points().data(),
                         second.points().data() + second.points().size());
    }
    const auto found = static_cast<Index>(cells.starts.size());
    cells.centroids =
        Eigen::Map<const RowMatrix<float>>(centroids.data(), found, points.cols()).cast<double>();
    return cells;
}

METRICFAST_NAMESPACE_END
