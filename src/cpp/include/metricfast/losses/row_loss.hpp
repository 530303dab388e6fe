/// What a loss is to the row engine: a function of one anchor's distances.
#pragma once

#include <limits>

#include "metricfast/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// What one anchor contributes.
struct RowValue {
    double value = 0;
    double weight = 1;    ///< of the anchor, for the reduction mean
    Index terms = 0;      ///< active terms, for the reduction mean_nonzero
    Index dropped = 0;    ///< neighbours left out, for example because their labels are tied
    bool skipped = false; ///< the anchor has no part in the loss (no neighbour it could use)
};

/// One anchor's row, as a loss sees it.
template <class T> struct Row {
    Index anchor = 0;
    Index count = 0;
    /// Database rows of the entries; null for all of 0..count-1.
    const std::int64_t *columns = nullptr;
    /// In: squared distances (or inner products); the excluded point's is +inf (-inf).
    /// Out: d loss / d value, in place, for the columns given.
    T *values = nullptr;
};

/// What a loss is told of its anchors: weights s_i (none: 1), and the database rows that the engine
/// leaves out.
inline void require_anchors(Weights weights, Codes exclude, Index queries, Index database) {
    require_each(weights, queries, "there must be one weight for each query");
    require_each(exclude, queries, "there must be one row to exclude, or -1, for each query");
    for (const std::int64_t row : exclude)
        require(row < database, "exclude holds an index outside the database");
}

/// The one call through which the engine, compiled once per precision, reaches every loss.
template <class T> class RowLoss {
  public:
    virtual ~RowLoss() = default;
    /// Throws std::invalid_argument unless the loss is one of so many queries and database points.
    virtual void check(Index /*queries*/, Index /*database*/) const {}
    /// True: most weights may be zero, and rows may be lists of the columns whose weights are not.
    virtual bool sparse() const = 0;
    /// Columns whose distance exceeds the row's smallest by more than this change neither value nor
    /// weights in T, and may be left out; infinite where every column matters.
    virtual double window(Index /*columns*/) const {
        return std::numeric_limits<double>::infinity();
    }
    /// Called from several threads at once.
    virtual RowValue evaluate(Row<T> &row) const = 0;
};

METRICFAST_NAMESPACE_END
