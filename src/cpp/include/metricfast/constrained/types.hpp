/// Arguments and results of learners from pairs, triplets and quadruplets.
#pragma once

#include "metricfast/core/views.hpp"

namespace metricfast {

/// Throws unless all indices are from 0 to points - 1.
inline void require_rows(Codes rows, Index points, const char *message) {
    for (const std::int64_t row : rows)
        require(row >= 0 && row < points, message);
}

/// Returns the number of triplets. Throws unless all indices are from 0 to points - 1. \param name
/// the name of the function, for the message.
inline Index count_triplets(Codes triplets, Index points, const std::string &name) {
    require(triplets.size() % 3 == 0, name + ": triplets must be (count, 3)");
    require_rows(triplets, points, (name + ": triplets holds an index outside the points").c_str());
    return triplets.size() / 3;
}

/// Pairs of points; the first `similar` of them should be near, the others far.
struct ItmlPairs {
    Points points;
    Codes index; ///< (count x 2) rows of `points`
    Index similar;

    Index count() const { return index.size() / 2; }

    void check() const {
        require(index.size() % 2 == 0, "itml: pairs must be (count, 2)");
        require(similar >= 0 && similar <= count(),
                "itml: similar must be from 0 to the number of pairs");
        require_rows(index, points.rows(), "itml: pairs hold an index outside the points");
    }
};

/// Bounds on squared distances, and the weight of their violations relative to the prior.
struct ItmlBounds {
    double similar;    ///< upper bound
    double dissimilar; ///< lower bound
    double gamma;      ///< infinity for no slack
};

/// Result of a sweep.
struct ItmlSweep {
    double moved = 0; ///< sum of the absolute changes of the duals
    double norm = 0;  ///< Euclidean norm of the duals after the sweep
    Index held = 0;   ///< number of pairs skipped because of rounding errors in M
};

/// Sums over one pass. The loss of each triplet is that before its update.
struct OasisTotals {
    double loss = 0;   ///< sum of v [1 - a^T W (b - c)]_+
    Index updates = 0; ///< number of triplets with positive loss
};

/// Tuples of rows of points; each holds `size / 2` pairs, one after the other.
struct TupleList {
    Codes index; ///< (count x size)
    Index size = 2;

    Index count() const { return index.size() / size; }
    Index pairs() const { return size / 2; }

    void check(const Points &points) const {
        require(size >= 2 && size % 2 == 0 && index.size() % size == 0, "tuples must hold pairs");
        require_rows(index, points.rows(), "tuples hold an index outside the points");
    }
};

struct ScmlSettings {
    double beta = 0;  ///< weight of sum_k w_k
    double gamma = 1; ///< strength of the proximal term: larger means smaller steps
    Index batch = 1;  ///< triplets per iteration
};

/// The triplets of further iterations.
struct ScmlDraws {
    Codes triplets; ///< (iterations x batch); empty to stop
};

/// The minimum over s > 0 of
///
///   s penalty + mean_t [1 + s |L (x_a - x_b)|^2 - s |L (x_a - x_c)|^2]_+, t = (a, b, c),
///
/// if the function decreases at s = 0, else the value at s = 1.
struct TripletObjective {
    double value, scale;
};

} // namespace metricfast
