/// Scatter matrices of groups of points.
#pragma once

#include "metricfast/simd/outer_products.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// The number of rows of a block that fits into the cache, and the numbers of blocks and lanes.
/// Each lane sums several blocks, so results do not depend on the number of threads.
struct BlocksOfRows {
    Index n, rows, blocks, lanes;

    BlocksOfRows(Index n_, Index d, Index most_lanes)
        : n(n_), rows(std::clamp<Index>(n, 1, RowPanels::rows_of(d))),
          blocks((n + rows - 1) / rows),
          lanes(std::min(std::clamp<Index>(most_lanes, 1, 8), (blocks + 3) / 4)) {}

    /// Calls f(first, count) for every block of a lane.
    template <class F> void for_lane(Index lane, Worker &worker, F &&f) const {
        for (Index b = lane; b < blocks; b += lanes) {
            f(b * rows, std::min(rows, n - b * rows));
            worker.advance();
        }
    }
};

inline void require_groups(Index n, Index d, Index n_groups, Weights weights, Codes group,
                           Span<const double> origin) {
    require(weights.size() == n && group.size() == n,
            "groups of points: there must be one weight and group per point");
    require_weights(weights, "groups of points: weights must be finite and not negative");
    require_each(origin, d, "groups of points: the origin must have one value per coordinate");
    for (const std::int64_t g : group)
        require(g >= 0 && g < n_groups,
                "groups of points: group holds an index outside the groups");
}

} // namespace detail

/// Computes out_g = sum_i w_i (x_i - o) over the points of group g, in double.
/// \param points (n x d). \param weights n non-negative weights. \param group n rows of `out`.
/// \param origin o, d values, or none for zero. \param out (groups x d), overwritten.
/// Returns the largest absolute coordinate of x_i - o.
inline double group_sums(const Points &points, Weights weights, Codes group, View<double> out,
                         Span<const double> origin = nullptr, const Control &control = {}) {
    const Index n = points.rows(), d = points.cols();
    require(out.cols == d, "group_sums: points and sums differ in width");
    detail::require_groups(n, d, out.rows, weights, group, origin);
    // With many groups, sums for several lanes cost more than parallel work saves.
    const detail::BlocksOfRows all(n, d, (Index(1) << 22) / std::max<Index>(1, out.rows * d));
    const Eigen::RowVectorXd zero = Eigen::RowVectorXd::Zero(d);
    const double *from = origin == nullptr ? zero.data() : origin.data();
    std::vector<RowMatrix<double>> sums(static_cast<std::size_t>(all.lanes));
    std::vector<double> largest(sums.size());
    const auto run = [&](Index lane, Worker &worker) {
        sums[lane].setZero(out.rows, d);
        Eigen::ArrayXd most = Eigen::ArrayXd::Zero(d);
        all.for_lane(lane, worker, [&](Index first, Index count) {
            points.visit([&](auto v) {
                double *high = most.data();
                for (Index i = first; i < first + count; ++i) {
                    const auto *x = v.row(i);
                    double *sum = sums[lane].row(group[i]).data();
                    const double weight = weights[i];
                    for (Index k = 0; k < d; ++k) {
                        const double offset = static_cast<double>(x[k]) - from[k];
                        const double size = std::abs(offset);
                        sum[k] += weight * offset;
                        high[k] = size > high[k] ? size : high[k];
                    }
                }
            });
        });
        largest[lane] = d > 0 ? most.maxCoeff() : 0;
    };
    parallel_blocks(all.lanes, control, run, all.blocks);
    eigen(out).setZero();
    for (const auto &sum : sums)
        eigen(out) += sum;
    if (!eigen(out).allFinite())
        require_finite(points, "group_sums: points must be finite");
    return largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end());
}

/// Returns sum_i w_i v_i v_i^T with v_i = (x_i - o - m_g(i)) / s, all in double.
/// \param points (n x d). \param weights n non-negative weights. \param group n rows of `means`.
/// \param scale s, d positive values, or none for one. \param origin o, d values, or none for zero.
inline RowMatrix<double> group_scatter(const Points &points, Weights weights, Codes group,
                                       View<const double> means, Span<const double> scale,
                                       const Control &control = {},
                                       Span<const double> origin = nullptr) {
    const Index n = points.rows(), d = points.cols();
    require(means.cols == d, "group_scatter: points and means differ in width");
    require_each(scale, d, "group_scatter: there must be one scale per coordinate");
    detail::require_groups(n, d, means.rows, weights, group, origin);
    const detail::BlocksOfRows all(n, d, 8);
    const Eigen::RowVectorXd zero = Eigen::RowVectorXd::Zero(d);
    const double *from = origin == nullptr ? zero.data() : origin.data();
    std::vector<std::unique_ptr<OuterProducts>> sums(static_cast<std::size_t>(all.lanes));
    const auto run = [&](Index lane, Worker &worker) {
        sums[lane] = std::make_unique<OuterProducts>(d);
        RowPanels panels(d, all.rows);
        all.for_lane(lane, worker, [&](Index first, Index count) {
            points.visit([&](auto v) {
                for (Index r = 0; r < count; ++r) {
                    const auto *x = v.row(first + r);
                    const double *mean = means.row(group[first + r]);
                    const double root = std::sqrt(weights[first + r]);
                    const auto deviation = [&](Index k) {
                        return (static_cast<double>(x[k]) - from[k] - mean[k]) * root;
                    };
                    if (scale == nullptr)
                        panels.set_row(r, deviation);
                    else
                        panels.set_row(r, [&](Index k) { return deviation(k) / scale[k]; });
                }
            });
            sums[lane]->add(panels, count);
        });
    };
    parallel_blocks(all.lanes, control, run, all.blocks);
    RowMatrix<double> scatter = RowMatrix<double>::Zero(d, d);
    for (const auto &sum : sums)
        sum->add_to(scatter);
    if (!scatter.diagonal().allFinite())
        require_finite(points, "group_scatter: points must be finite");
    return scatter.selfadjointView<Eigen::Lower>();
}

METRICFAST_NAMESPACE_END
