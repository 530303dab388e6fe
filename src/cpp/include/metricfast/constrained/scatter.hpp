/// Scatter matrices of groups of points.
#pragma once

#include "metricfast/core/parallel.hpp"

METRICFAST_NAMESPACE_BEGIN

/// sum_i w_i v_i v_i^T with v_i = (x_i - m_g(i)) / s, all in double. Lanes own the sums, so results
/// do not depend on the number of threads.
/// \param points (n x d). \param weights n non-negative ones. \param group n rows of `means`.
/// \param scale s, d positive values.
inline RowMatrix<double> group_scatter(const Points &points, Weights weights, Codes group,
                                       View<const double> means, Span<const double> scale,
                                       const Control &control = {}) {
    const Index n = points.rows(), d = points.cols();
    require(means.cols == d, "group_scatter: points and means differ in width");
    require_finite(points, "group_scatter: points must be finite");
    require(
        weights.size() == n && group.size() == n && scale.size() == d,
        "group_scatter: there must be one weight and group a point, and one scale a coordinate");
    for (const std::int64_t g : group)
        require(g >= 0 && g < means.rows, "group_scatter: a group has no mean");
    // Blocks that stay in the cache, but are long enough for the sums to cost little.
    const Index rows = std::max<Index>(64, (Index(1) << 15) / std::max<Index>(1, d));
    const Index blocks = (n + rows - 1) / rows;
    std::vector<RowMatrix<double>> sums(static_cast<std::size_t>(std::min<Index>(8, blocks)));
    const Index lanes = static_cast<Index>(sums.size());
    const Eigen::Map<const Eigen::RowVectorXd> divisor(scale.data(), d);
    const auto run = [&](Index lane, Worker &worker) {
        sums[lane].setZero(d, d);
        RowMatrix<double> deviations;
        for (Index b = lane; b < blocks; b += lanes) {
            const Index first = b * rows, count = std::min(rows, n - first);
            renew(deviations, count, d);
            for (Index r = 0; r < count; ++r) {
                const Index i = first + r;
                auto row = deviations.row(r);
                points.read_row(i, row.data());
                row -= Eigen::Map<const Eigen::RowVectorXd>(means.row(group[i]), d);
                row = row.cwiseQuotient(divisor) * std::sqrt(weights[i]);
            }
            sums[lane].selfadjointView<Eigen::Lower>().rankUpdate(deviations.transpose());
            worker.advance();
        }
    };
    parallel_blocks(lanes, control, run, blocks);
    RowMatrix<double> scatter = RowMatrix<double>::Zero(d, d);
    for (const auto &sum : sums)
        scatter += sum;
    return scatter.selfadjointView<Eigen::Lower>();
}

METRICFAST_NAMESPACE_END
