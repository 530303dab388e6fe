/// Online passive-aggressive learning of a bilinear similarity a^T W b from triplets.
#pragma once

#include "metricfast/constrained/types.hpp"
#include "metricfast/core/parallel.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Updates W for the triplets order[0], order[1], ... of rows (a, b, c) in turn: W += tau a (b -
/// c)^T with tau = min(C v, loss / (|a|^2 |b - c|^2)), where v is the weight of the triplet.
///
/// The update for one triplet and the product for the next share a pass over W. The pass skips rows
/// where both first points are zero.
/// \param triplets (n_triplets x 3); \param weights v of each triplet, or null for ones.
/// \param order indices of triplets. \param W (d x d), row-major, updated. A cancelled call keeps
///   the updates of the triplets before.
template <class T>
OasisTotals oasis(View<const T> points, Codes triplets, Weights weights, Codes order, double C,
                  View<T> W, const Control &control = {}) {
    const Index d = points.cols, count = order.size();
    const Index n_triplets = count_triplets(triplets, points.rows, "oasis");
    require(W.rows == d && W.cols == d, "oasis: W must be (d, d)");
    require(C > 0, "oasis: C must be positive");
    require_each(weights, n_triplets, "oasis: there must be one weight per triplet");
    require_weights(weights, "oasis: weights must be finite and not negative");
    require_finite(points, "oasis: points must be finite");
    require_finite(W, "oasis: W must be finite");
    require_rows(order, n_triplets, "oasis: order holds an index outside the triplets");
    using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;
    const auto row = [d](const T *data) { return Eigen::Map<const Row>(data, d); };
    const auto row_of_w = [&](Index r) { return Eigen::Map<Row>(W.row(r), d); };
    const T *last = nullptr; // the first point of the pending update of W
    Row last_step, step;
    OasisTotals totals;
    const auto all = [&](Index, Worker &worker) {
        for (Index i = 0; i < count; ++i) {
            const std::int64_t *t = triplets.data() + 3 * order[i];
            const T *a = points.row(static_cast<Index>(t[0]));
            step = row(points.row(static_cast<Index>(t[1]))) -
                   row(points.row(static_cast<Index>(t[2])));
            double score = 0;
            for (Index r = 0; r < d; ++r) {
                if (last != nullptr && last[r] != T(0))
                    row_of_w(r) += last[r] * last_step;
                if (a[r] != T(0))
                    score += static_cast<double>(a[r]) * static_cast<double>(row_of_w(r).dot(step));
            }
            last = nullptr;
            const double loss = 1 - score;
            const double size =
                static_cast<double>(row(a).squaredNorm()) * static_cast<double>(step.squaredNorm());
            if (loss > 0) {
                const double weight = weights != nullptr ? weights[order[i]] : 1.0;
                totals.loss += weight * loss;
                ++totals.updates;
                if (size > 0) {
                    last = a;
                    last_step = static_cast<T>(std::min(C * weight, loss / size)) * step;
                }
            }
            worker.advance();
        }
    };
    const auto finish = [&] {
        for (Index r = 0; last != nullptr && r < d; ++r)
            row_of_w(r) += last[r] * last_step;
    };
    try {
        parallel_blocks(1, control, all, count);
    } catch (const Cancelled &) {
        finish();
        throw;
    }
    finish();
    return totals;
}

METRICFAST_NAMESPACE_END
