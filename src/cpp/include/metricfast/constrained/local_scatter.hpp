/// The scatter of points around their neighbours, for local Fisher discriminant analysis
/// (Sugiyama, 2007).
#pragma once

#include <algorithm>
#include <queue>

#include "metricfast/distance/distance.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Returns the number of rows, in whole tiles, whose distances to all columns stay in the cache.
inline Index local_block(Index points) {
    constexpr Index tile = TileShape<double>::rows;
    const Index cached = (Index(1) << 16) / std::max<Index>(1, points);
    return std::max(4 * tile, std::min(cached, 10 * tile) / tile * tile);
}

/// Returns an upper bound on the (k + 1)-th smallest distance of a row, from the minima of groups
/// of columns. It is infinite if k is large or there are few columns.
inline double bound_of_rank(const double *distances, Index count, Index k) {
    constexpr int W = Vec<double>::width, groups = 32;
    if (k >= groups || count < groups)
        return std::numeric_limits<double>::infinity();
    Vec<double> least[groups / W];
    for (int g = 0; g < groups / W; ++g)
        least[g] = Vec<double>::load(distances + g * W);
    for (Index j = groups; j + groups <= count; j += groups)
        for (int g = 0; g < groups / W; ++g)
            least[g] = min(least[g], Vec<double>::load(distances + j + g * W));
    double smallest[groups];
    for (int g = 0; g < groups / W; ++g)
        least[g].store(smallest + g * W);
    std::nth_element(smallest, smallest + k, smallest + groups);
    return smallest[k];
}

/// Returns the nearest column other than `self` at which the cumulative weight, starting from
/// `weight`, reaches `enough`. Returns the farthest column if the weights never do, and `self` if
/// there is no other column or none is needed.
/// \param bound columns at larger distances are ignored.
inline Index column_of_weight(const double *distances, Index count, Index self,
                              const double *weights, double weight, double enough, double bound) {
    constexpr int W = Vec<double>::width;
    if (weight >= enough)
        return self;
    std::priority_queue<std::pair<double, Index>> nearest;
    double limit = std::nextafter(bound, std::numeric_limits<double>::infinity());
    const auto add = [&](Index j) {
        if (j == self || !(distances[j] < limit))
            return;
        nearest.emplace(distances[j], j);
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
        unsigned mask = less(Vec<double>::load(distances + j), Vec<double>::broadcast(limit));
        for (; mask != 0; mask &= mask - 1)
            add(j + lowest_bit(mask));
    }
    for (; j < count; ++j)
        add(j);
    return nearest.empty() ? self : nearest.top().second;
}

} // namespace detail

/// sum_{i<j} w_i w_j A_ij (x_i - x_j)(x_i - x_j)^T with A_ij = exp(-D_ij / (s_i s_j)), s_i being
/// the distance of x_i to its k-th nearest other point, or to its farthest if there are fewer. A
/// point of weight w counts as w equal points, so it has w - 1 neighbours at distance zero. A point
/// of scale zero has affinity to its copies only.
///
/// Only one of A_ij and A_ji is formed, a block of rows at a time. Each lane has its sums, so
/// results do not depend on the number of threads.
/// \param points (n x d), preferably centred. \param weights n positive weights.
inline RowMatrix<double> local_scatter(View<const double> points, Weights weights, Index k,
                                       const Control &control = {}) {
    require(k >= 1, "local_scatter: k must be at least 1");
    require(weights.size() == points.rows, "local_scatter: there must be one weight per point");
    require_weights(weights, "local_scatter: weights must be finite and not negative");
    const Index n = points.rows, d = points.cols, rows = detail::local_block(n);
    if (n == 0)
        return RowMatrix<double>::Zero(d, d);
    const Index blocks = (n + rows - 1) / rows, lanes = std::min<Index>(8, blocks);
    const Points all(points);
    const AllPairs<double> pairs(all, all, control);
    std::vector<RowMatrix<double>> scratch(static_cast<std::size_t>(lanes)); // for each thread
    // Calls step(lane, first row, block), where the block holds the distances to columns `first`
    // and above, or to all columns.
    const auto for_blocks = [&](bool whole, auto &&step) {
        const auto run = [&](Index lane, Worker &worker) {
            RowMatrix<double> &block = scratch[worker.id()];
            for (Index b = lane; b < blocks; b += lanes) {
                const Index first = b * rows;
                renew(block, std::min(rows, n - first), n);
                pairs.fill(first, view(block), true, whole ? 0 : first);
                step(lane, first, block);
                worker.advance();
            }
        };
        parallel_blocks(lanes, control, run, blocks);
    };

    // Sums of fractional weights may miss k by a rounding error.
    const double enough = static_cast<double>(k) * (1 - 1e-12);
    const bool whole = std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 1; });
    Eigen::ArrayXd near(n); // 1 / s_i, or 0 for points of scale zero
    for_blocks(true, [&](Index, Index first, const RowMatrix<double> &block) {
        for (Index r = 0; r < block.rows(); ++r) {
            const Index i = first + r;
            const double *distances = block.row(r).data();
            const double bound = whole ? detail::bound_of_rank(distances, n, k)
                                       : std::numeric_limits<double>::infinity();
            const Index j = detail::column_of_weight(distances, n, i, weights.data(),
                                                     std::max(weights[i] - 1, 0.0), enough, bound);
            const double found = squared_distance(points.row(i), points.row(j), d);
            near[i] = found > 0 ? 1 / std::sqrt(found) : 0.0;
        }
    });

    // Let B be the affinities times both weights, and b the sums of its rows. The scatter is X^T P
    // with P = (diag(b) - B) X. With only the upper half of B and b / 2 in place of b it is X^T P +
    // P^T X, which costs less unless all of B is in memory.
    const bool both = blocks == 1;
    std::vector<Eigen::ArrayXd> degrees(static_cast<std::size_t>(lanes), Eigen::ArrayXd::Zero(n));
    const Eigen::ArrayXd mass =
        (near > 0).select(Eigen::Map<const Eigen::ArrayXd>(weights.data(), n), 0.0);
    const RowMatrix<double> weighted = mass.matrix().asDiagonal() * eigen(points);
    RowMatrix<double> P(n, d);
    for_blocks(false, [&](Index lane, Index first, RowMatrix<double> &block) {
        const Index count = block.rows(), rest = n - first;
        auto affinity = block.rightCols(rest);
        for (Index r = 0; r < count; ++r) {
            const Index i = first + r;
            // Products of denormal numbers would be slow.
            auto row = affinity.row(r).array().transpose();
            row = (row * near.tail(rest) * -near[i]).max(-600.0).exp();
            row.head(r + 1).setZero();
            degrees[lane][i] += (row * mass.tail(rest)).sum();
            degrees[lane].tail(rest) += mass[i] * row;
        }
        for (Index r = 0; both && r < n; ++r)
            block.col(r).tail(n - r) = block.row(r).tail(n - r).transpose();
        detail::multiply<double>(view(block).block(0, first, count, rest),
                                 view(weighted).middle_rows(first, rest),
                                 view(P).middle_rows(first, count));
    });
    for (Index lane = 1; lane < lanes; ++lane)
        degrees[0] += degrees[lane];
    for (Index i = 0; i < n; ++i)
        P.row(i) = (both ? 1 : 0.5) * degrees[0][i] * weighted.row(i) - mass[i] * P.row(i);
    RowMatrix<double> scatter(d, d);
    constexpr Index stripe = 64;
    parallel_blocks((d + stripe - 1) / stripe, control.silent(), [&](Index s, Worker &) {
        const Index from = s * stripe, height = std::min(stripe, d - from), end = from + height;
        const View<double> lower = view(scatter).block(from, 0, height, end);
        const View<const double> left = view(P);
        detail::multiply_tn<double>(left.block(0, from, n, height), points.block(0, 0, n, end),
                                    lower);
        if (!both)
            detail::add_product_tn<double>(points.block(0, from, n, height),
                                           left.block(0, 0, n, end), lower);
        scatter.block(0, from, from, height) = scatter.block(from, 0, height, from).transpose();
        auto corner = scatter.block(from, from, height, height);
        corner.triangularView<Eigen::StrictlyUpper>() = corner.transpose();
    });
    return scatter;
}

METRICFAST_NAMESPACE_END
