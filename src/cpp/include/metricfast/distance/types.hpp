/// Arguments of distances.
#pragma once

#include "metricfast/core/views.hpp"

namespace metricfast {

/// Pairs of rows: row i of x with row i of y, or x[pairs[2i]] with y[pairs[2i+1]].
struct PairList {
    Codes pairs; ///< (count x 2) or null
    Index count = 0;

    /// Row of the i-th pair's first point, below `rows`. It is read once and checked then, because
    /// other owners of the array may change it.
    Index left(Index i, Index rows) const { return pairs != nullptr ? row(2 * i, rows) : i; }
    Index right(Index i, Index rows) const { return pairs != nullptr ? row(2 * i + 1, rows) : i; }

    void check(const Points &x, const Points &y) const {
        require(pairs != nullptr || (x.rows() == count && y.rows() == count),
                "paired_distances: X and Y must have the same number of rows");
        require(pairs == nullptr || is_matrix(pairs.size(), count, 2),
                "paired_distances: pairs must be (count, 2)");
        for (Index i = 0; i < count; ++i) {
            left(i, x.rows());
            right(i, y.rows());
        }
    }

  private:
    Index row(Index place, Index rows) const {
        const std::int64_t found = static_cast<const volatile std::int64_t *>(pairs.data())[place];
        require(found >= 0 && found < rows,
                "paired_distances: pairs holds an index outside X or Y");
        return static_cast<Index>(found);
    }
};

} // namespace metricfast
