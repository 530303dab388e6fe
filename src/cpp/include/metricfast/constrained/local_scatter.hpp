/// The scatter of points around their neighbours, for local Fisher discriminant analysis
/// (Sugiyama, 2007).
#pragma once

#include <algorithm>
#include <queue>

#include "metricfast/distance.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Whole tiles of rows whose distances to all columns stay in the cache.
inline Index local_block(Index points) {
    constexpr Index tile = TileShape<double>::rows;
    const Index cached = (Index(1) << 16) / std::max<Index>(1, points);
    return std::max(4 * tile, std::min(cached, 10 * tile) / tile * tile);
}

/// The nearest column but `self` at which the weights of the columns up to it, and `weight`, reach
/// `enough`; the farthest where they never do, and `self` where there is none or none is needed.
inline Index column_of_weight(const double *squared_distances, Index count, Index self,
                              const double *weights, double weight, double enough) {
    constexpr int W = Vec<double>::width;
    if (weight >= enough)
        return self;
    std::priority_queue<std::pair<double, Index>> nearest;
    double limit = std::numeric_limits<double>::infinity();
    const auto add = [&](Index j) {
        if (j == self || !(squared_distances[j] < limit))
            return;
        nearest.emplace(squared_distances[j], j);
        weight += weights[j];
        while (nearest.size() > 1 && weight - weights[nearest.top().second] >= enough) {
            weight -= weights[nearest.top().second];
            nearest.pop();
        }
        if (weight >= enough)
            limit = nearest.top().first;
    };
    Index j = 0;
    for (; j + W <= count; j += W) {
        unsigned mask =
            less(Vec<double>::load(squared_distances + j), Vec<double>::broadcast(limit));
        for (; mask != 0; mask &= mask - 1)
            add(j + lowest_bit(mask));
    }
    for (; j < count; ++j)
        add(j);
    return nearest.empty() ? self : nearest.top().second;
}

/// The reciprocal of each point's distance to its k-th nearest other one, or 0 where that is 0.
inline Eigen::ArrayXd reciprocal_scales(const AllPairs<double> &pairs, View<const double> points,
                                        const double *weights, Index k, const Control &control) {
    const Index n = points.rows, rows = local_block(n);
    // Sums of weights that are no whole numbers may miss k by a rounding.
    const double enough = static_cast<double>(k) * (1 - 1e-12);
    Eigen::ArrayXd result(n);
    parallel_blocks((n + rows - 1) / rows, control, [&](Index b, Worker &) {
        const Index first = b * rows;
        RowMatrix<double> squared(std::min(rows, n - first), n);
        pairs.fill(first, view(squared), true);
        for (Index r = 0; r < squared.rows(); ++r) {
            const Index i = first + r;
            const Index j = column_of_weight(squared.row(r).data(), n, i, weights,
                                             std::max(weights[i] - 1, 0.0), enough);
            const double found = squared_distance(points.row(i), points.row(j), points.cols);
            result[i] = found > 0 ? 1 / std::sqrt(found) : 0.0;
        }
    });
    return result;
}

} // namespace detail

/// sum_{i<j} w_i w_j A_ij (x_i - x_j)(x_i - x_j)^T with A_ij = exp(-D_ij / (s_i s_j)), s_i being
/// the distance of x_i to its k-th nearest other point, or to its farthest if there are fewer. A
/// point of weight w is w points, of which w - 1 are its own neighbours at distance zero; one of
/// scale zero has affinity to its copies alone.
///
/// Only one of A_ij and A_ji is formed, a block of rows at a time. Lanes own the sums, so results
/// do not depend on the number of threads.
/// \param points (n x d), best centred. \param weights n positive ones.
inline RowMatrix<double> local_scatter(View<const double> points, const double *weights, Index k,
                                       const Control &control = {}) {
    require(k >= 1, "local_scatter: k must be at least 1");
    const Index n = points.rows, d = points.cols, rows = detail::local_block(n);
    const Points all(points);
    const AllPairs<double> pairs(all, all, control);
    const Eigen::ArrayXd near = detail::reciprocal_scales(pairs, points, weights, k, control);
    const Eigen::ArrayXd mass =
        (near > 0).select(Eigen::Map<const Eigen::ArrayXd>(weights, n), 0.0);
    const RowMatrix<double> weighted = mass.matrix().asDiagonal() * points.eigen();
    struct Lane {
        RowMatrix<double> cross;
        Eigen::ArrayXd degrees;
    };
    const Index blocks = (n + rows - 1) / rows;
    std::vector<Lane> lanes(static_cast<std::size_t>(std::min<Index>(8, blocks)));
    const auto run = [&](Index l, Worker &worker) {
        Lane &lane = lanes[l];
        lane.cross.setZero(d, d);
        lane.degrees.setZero(n);
        RowMatrix<double> block, product;
        for (Index b = l; b < blocks; b += static_cast<Index>(lanes.size())) {
            const Index first = b * rows, count = std::min(rows, n - first), rest = n - first;
            block.resize(count, n);
            pairs.fill(first, view(block), true, first);
            auto affinity = block.rightCols(rest);
            for (Index r = 0; r < count; ++r) {
                const Index i = first + r;
                // Products of denormal numbers would be slow.
                auto row = affinity.row(r).array().transpose();
                row = (row * near.tail(rest) * -near[i]).max(-600.0).exp();
                row.head(r + 1).setZero();
                lane.degrees[i] += (row * mass.tail(rest)).sum();
                lane.degrees.tail(rest) += mass[i] * row;
            }
            product.noalias() = affinity * weighted.bottomRows(rest);
            lane.cross.noalias() += weighted.middleRows(first, count).transpose() * product;
            worker.advance();
        }
    };
    parallel_blocks(static_cast<Index>(lanes.size()), control, run, blocks);
    for (std::size_t l = 1; l < lanes.size(); ++l) {
        lanes[0].cross += lanes[l].cross;
        lanes[0].degrees += lanes[l].degrees;
    }
    RowMatrix<double> scatter(d, d);
    scatter.noalias() =
        weighted.transpose() * lanes[0].degrees.matrix().asDiagonal() * points.eigen();
    scatter -= lanes[0].cross + lanes[0].cross.transpose();
    return (scatter + scatter.transpose()) / 2;
}

METRICFAST_NAMESPACE_END
