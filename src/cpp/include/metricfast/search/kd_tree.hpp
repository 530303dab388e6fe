/// Exact search of the k nearest points with a tree of boxes, for few coordinates.
///
/// A box bounds the distances of its points without slack for rounding: rounding is monotonic, and
/// the bound sums the same terms in the same order.
#pragma once

#include <algorithm>

#include "metricfast/search/candidates.hpp"
#include "metricfast/search/types.hpp"

METRICFAST_NAMESPACE_BEGIN

class KdTree {
  public:
    /// \param scale scale of the distances.
    KdTree(const Points &points, double scale, const Control &control)
        : depth_(points.cols()), scale_(scale), rows_(identity_order(points.rows())) {
        const Index n = points.rows();
        while ((n >> levels_) >= leaf)
            ++levels_;
        boxes_.resize(static_cast<std::size_t>(2 * depth_ << (levels_ + 1)));
        lowest_.resize(std::size_t(2) << levels_);
        RowMatrix<double> all(n, depth_);
        for (Index i = 0; i < n; ++i)
            points.read_row(i, all.row(i).data());
        for (int level = 0; level <= levels_; ++level)
            parallel_blocks(Index(1) << level, control, [&](Index b, Worker &) {
                describe(all, (Index(1) << level) + b);
                if (level < levels_)
                    split(all, (Index(1) << level) + b);
            });
        coordinates_.resize(static_cast<std::size_t>((n + lanes) * depth_));
        for (Index i = 0; i < n; ++i)
            for (Index k = 0; k < depth_; ++k)
                coordinates_[static_cast<std::size_t>(k * (n + lanes) + i)] = all(rows_[i], k);
    }

    std::size_t bytes() const {
        return 8 * (boxes_.size() + lowest_.size() + rows_.size() + coordinates_.size());
    }

    /// Reusable memory.
    struct Memory {
        std::vector<Neighbor> best;
        std::vector<double> query;
    };

    /// Stores the k nearest rows to memory.query in memory.best, in order, among the rows that the
    /// filter allows the i-th query.
    void search(Index k, const Filter &filter, Index i, Memory &memory) const {
        Search search{*this, memory.query.data(), static_cast<std::size_t>(k), filter,
                      i,     memory.best};
        memory.best.clear();
        search.visit(1, search.bound(1));
        std::sort_heap(memory.best.begin(), memory.best.end());
    }

  private:
    static constexpr Index leaf = 32;  ///< maximum number of points in a leaf
    static constexpr Index lanes = 32; ///< of distances computed at a time

    struct Search {
        const KdTree &tree;
        const double *query;
        std::size_t k;
        const Filter &filter;
        Index i;
        std::vector<Neighbor> &best; ///< a heap, farthest first

        /// Lower bound of the distances to all points of the box.
        double bound(Index node) const {
            const double *low = tree.low(node), *high = tree.high(node);
            double sum = 0;
            for (Index c = 0; c < tree.depth_; ++c) {
                const double d =
                    std::max(0.0, std::max(low[c] - query[c], query[c] - high[c])) * tree.scale_;
                sum += d * d;
            }
            return sum;
        }

        bool beyond(Index node, double distance) const {
            return best.size() == k && !(Neighbor{distance, tree.lowest_[node]} < best.front());
        }

        void visit(Index node, double distance) {
            while (!beyond(node, distance)) {
                if (node >> tree.levels_ != 0)
                    return search_leaf(node);
                Index near = 2 * node, far = near + 1;
                double first = bound(near), second = bound(far);
                if (Neighbor{second, tree.lowest_[far]} < Neighbor{first, tree.lowest_[near]}) {
                    std::swap(near, far);
                    std::swap(first, second);
                }
                visit(near, first);
                node = far;
                distance = second;
            }
        }

        void search_leaf(Index node) {
            double sums[lanes] = {};
            const Index begin = tree.begin(node), end = tree.end(node);
            const Index stride = static_cast<Index>(tree.rows_.size()) + lanes;
            for (Index c = 0; c < tree.depth_; ++c) {
                const double *x = &tree.coordinates_[c * stride + begin];
                for (Index l = 0; l < lanes; ++l) {
                    const double d = (query[c] - x[l]) * tree.scale_;
                    sums[l] += d * d;
                }
            }
            for (Index o = begin; o < end; ++o)
                if (best.size() < k || sums[o - begin] <= best.front().distance)
                    add({sums[o - begin], tree.rows_[o]});
        }

        void add(const Neighbor &found) {
            if ((best.size() == k && !(found < best.front())) || !filter(i, found.index))
                return;
            if (best.size() == k) {
                std::pop_heap(best.begin(), best.end());
                best.back() = found;
            } else {
                best.push_back(found);
            }
            std::push_heap(best.begin(), best.end());
        }
    };

    /// The points of a node; each level halves the nodes of the level above.
    Index begin(Index node) const { return edge(node, 0); }
    Index end(Index node) const { return edge(node, 1); }
    Index edge(Index node, Index side) const {
        int level = 0;
        while (node >> (level + 1) != 0)
            ++level;
        const Index place = node - (Index(1) << level) + side;
        return static_cast<Index>(rows_.size()) * place >> level;
    }

    const double *low(Index node) const { return &boxes_[2 * depth_ * node]; }
    const double *high(Index node) const { return low(node) + depth_; }

    void describe(const RowMatrix<double> &all, Index node) {
        double *const low = &boxes_[2 * depth_ * node], *const high = low + depth_;
        std::fill(low, high, std::numeric_limits<double>::infinity());
        std::fill(high, high + depth_, -std::numeric_limits<double>::infinity());
        std::int64_t &lowest = lowest_[node] = std::numeric_limits<std::int64_t>::max();
        for (Index o = begin(node); o < end(node); ++o) {
            const double *x = all.row(rows_[o]).data();
            lowest = std::min(lowest, rows_[o]);
            for (Index c = 0; c < depth_; ++c) {
                low[c] = std::min(low[c], x[c]);
                high[c] = std::max(high[c], x[c]);
            }
        }
    }

    /// Splits the points of a node by the coordinate with the largest range; ties by row.
    void split(const RowMatrix<double> &all, Index node) {
        Index widest = 0;
        for (Index c = 1; c < depth_; ++c)
            if (high(node)[c] - low(node)[c] > high(node)[widest] - low(node)[widest])
                widest = c;
        const Index first = begin(node), size = end(node) - first;
        std::vector<std::pair<double, std::int64_t>> keys(static_cast<std::size_t>(size));
        for (Index o = 0; o < size; ++o)
            keys[o] = {all(rows_[first + o], widest), rows_[first + o]};
        std::nth_element(keys.begin(), keys.begin() + (end(2 * node) - first), keys.end());
        for (Index o = 0; o < size; ++o)
            rows_[first + o] = keys[o].second;
    }

    Index depth_;
    double scale_;
    int levels_ = 0;
    std::vector<std::int64_t> rows_;   ///< in the order of the leaves
    std::vector<double> boxes_;        ///< minimum and maximum coordinates of each node
    std::vector<std::int64_t> lowest_; ///< lowest row of each node
    std::vector<double> coordinates_;  ///< in the order of the leaves, column by column
};

METRICFAST_NAMESPACE_END
