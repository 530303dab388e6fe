/// Arguments and results of the learners of pairs, triplets and quadruplets.
#pragma once

#include "metricfast/core/views.hpp"

namespace metricfast {

/// Pairs of points; the first `similar` of them should be near, the others far.
struct ItmlPairs {
    Points points;
    const std::int64_t *index; ///< (count x 2) rows of `points`
    Index count;
    Index similar;
};

/// Bounds on squared distances and the weight of keeping them against staying near the prior.
struct ItmlBounds {
    double similar;    ///< upper bound
    double dissimilar; ///< lower bound
    double gamma;      ///< infinity: no slack
};

/// Result of a sweep.
struct ItmlSweep {
    double moved = 0; ///< sum of the absolute changes of the duals
    double norm = 0;  ///< Euclidean, of the duals after it
    Index held = 0;   ///< pairs whose step would have gone down into the rounding errors of M
};

/// Sums over one pass: each triplet counts before its own update.
struct OasisTotals {
    double loss = 0;   ///< sum of v [1 - a^T W (b - c)]_+
    Index updates = 0; ///< triplets of positive loss
};

/// Tuples of rows of points; each holds `size / 2` pairs, one after the other.
struct TupleList {
    const std::int64_t *index = nullptr; ///< (count x size)
    Index count = 0;
    Index size = 2;

    Index pairs() const { return size / 2; }

    void check(const Points &points) const {
        for (Index i = 0; i < count * size; ++i)
            require(index[i] >= 0 && index[i] < points.rows(),
                    "tuples hold an index outside the points");
    }
};

struct ScmlSettings {
    double beta = 0;  ///< weight of sum_k w_k
    double gamma = 1; ///< strength of the proximal term: larger means smaller steps
    Index batch = 1;  ///< triplets an iteration
};

/// Which triplets further iterations use.
struct ScmlDraws {
    const std::int64_t *triplets = nullptr; ///< iterations x batch
    Index iterations = 0;
};

/// The lowest value over s > 0 of
///
///   s penalty + mean_t [1 + s |L (x_a - x_b)|^2 - s |L (x_a - x_c)|^2]_+, t = (a, b, c),
///
/// where a small s is better than none, else the value at s = 1.
struct TripletObjective {
    double value, scale;
};

} // namespace metricfast
