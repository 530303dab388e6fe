/// Sums over differences of paired points, for learners of a matrix M from tuples.
#pragma once

#include <algorithm>
#include <cmath>

#include "metricfast/constrained/types.hpp"
#include "metricfast/core/parallel.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The result of a kernel: sum_i value_i, and the scatter matrix S = sum_i sum_v weight v v^T over
/// the differences v of tuple i.
struct ValueAndScatter {
    double value = 0;
    RowMatrix<double> scatter; ///< (d x d), or its diagonal (1 x d)
};

namespace detail {

/// Distances under a map L, and the full scatter matrix. Only its lower triangle is summed.
class FullMetric {
  public:
    explicit FullMetric(View<const double> L) : transposed_(eigen(L).transpose()) {}
    Index scatter_rows() const { return transposed_.rows(); }
    Index width() const { return transposed_.rows(); }

    template <class Norms>
    void norms(const RowMatrix<double> &v, RowMatrix<double> &scratch, Norms &out) const {
        renew(scratch, v.rows(), transposed_.cols());
        multiply<double>(view(v), view(transposed_), view(scratch));
        renew(out, v.rows());
        out = scratch.rowwise().norm();
    }
    template <class Block>
    static void add(const Block &v, const Block &weighted, RowMatrix<double> &scatter) {
        scatter.triangularView<Eigen::Lower>() += weighted.transpose() * v;
    }
    static void finish(RowMatrix<double> &scatter) {
        scatter.triangularView<Eigen::StrictlyUpper>() = scatter.transpose();
    }

  private:
    RowMatrix<double> transposed_; ///< (d x p)
};

/// The same for a diagonal L, given as a row. Only the diagonal of the scatter matrix is computed.
class DiagonalMetric {
  public:
    explicit DiagonalMetric(View<const double> l) : scale_(eigen(l)) {}
    static Index scatter_rows() { return 1; }
    Index width() const { return scale_.cols(); }

    template <class Norms>
    void norms(const RowMatrix<double> &v, RowMatrix<double> &scratch, Norms &out) const {
        renew(scratch, v.rows(), v.cols());
        scratch = v.array().rowwise() * scale_.row(0).array();
        renew(out, v.rows());
        out = scratch.rowwise().norm();
    }
    template <class Block>
    static void add(const Block &v, const Block &weighted, RowMatrix<double> &scatter) {
        scatter.row(0) += v.cwiseProduct(weighted).colwise().sum();
    }
    static void finish(RowMatrix<double> &) {}

  private:
    RowMatrix<double> scale_; ///< (1 x d)
};

inline constexpr Index difference_block = 256;

/// Returns the number of lanes. Lane l sums the blocks l, l + lanes, l + 2 lanes and so on. The
/// sums are added in the order of the lanes, so the result does not depend on the number of
/// threads.
inline Index difference_lanes(Index width) {
    constexpr Index budget = Index{1} << 24; // doubles
    return std::clamp<Index>(budget / std::max<Index>(1, width * width), 2, 16);
}

/// \param weigh a function (i, lengths, weights) -> value. It computes the value and the weights of
///   tuple i from the lengths of its differences under the metric. A weight of 0 leaves out a
///   difference.
template <class Metric, class Weigh>
ValueAndScatter sum_differences(const Points &points, const TupleList &tuples, const Metric &metric,
                                Weigh &&weigh, const Control &control) {
    require(points.cols() == metric.width(), "points and map differ in width");
    tuples.check(points);
    require_finite(points, "points must be finite");
    const Index d = points.cols(), pairs = tuples.pairs();
    const Index step = std::max<Index>(1, difference_block / pairs);
    const Index n = tuples.count(), blocks = (n + step - 1) / step;
    const Index lanes = std::min(blocks, difference_lanes(d));
    std::vector<ValueAndScatter> parts(static_cast<std::size_t>(std::max<Index>(lanes, 1)));
    const auto run = [&](Index lane, Worker &worker) {
        ValueAndScatter &part = parts[static_cast<std::size_t>(lane)];
        part.scatter.setZero(metric.scatter_rows(), d);
        RowMatrix<double> v, weighted, scratch;
        Eigen::VectorXd lengths, weights(step * pairs);
        std::vector<double> other(static_cast<std::size_t>(d));
        for (Index b = lane; b < blocks; b += lanes) {
            const Index first = b * step, count = std::min(step, n - first);
            renew(v, count * pairs, d);
            points.visit([&](auto x) {
                for (Index r = 0; r < count * pairs; ++r) {
                    const std::int64_t *pair = tuples.index.data() + first * tuples.size + 2 * r;
                    const auto *left = x.row(static_cast<Index>(pair[0]));
                    const auto *right = x.row(static_cast<Index>(pair[1]));
                    for (Index c = 0; c < d; ++c)
                        v(r, c) = static_cast<double>(left[c]) - static_cast<double>(right[c]);
                }
            });
            metric.norms(v, scratch, lengths);
            for (Index i = 0; i < count; ++i)
                part.value +=
                    weigh(first + i, lengths.data() + i * pairs, weights.data() + i * pairs);
            Index active = 0;
            renew(weighted, v.rows(), d);
            for (Index r = 0; r < v.rows(); ++r) {
                if (weights[r] == 0)
                    continue;
                if (active != r)
                    v.row(active) = v.row(r);
                weighted.row(active) = v.row(active) * weights[r];
                ++active;
            }
            if (active > 0)
                metric.add(v.topRows(active), weighted.topRows(active), part.scatter);
            worker.advance();
        }
    };
    parallel_blocks(lanes, control, run, blocks);
    ValueAndScatter &total = parts.front();
    if (lanes == 0)
        total.scatter.setZero(metric.scatter_rows(), d);
    for (Index lane = 1; lane < lanes; ++lane) {
        total.value += parts[static_cast<std::size_t>(lane)].value;
        total.scatter += parts[static_cast<std::size_t>(lane)].scatter;
    }
    metric.finish(total.scatter);
    return std::move(total);
}

} // namespace detail

METRICFAST_NAMESPACE_END
