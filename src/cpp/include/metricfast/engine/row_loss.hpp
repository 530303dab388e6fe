/// What a loss is to the row engine: a function of one anchor's distances.
#pragma once

#include <limits>

#include "metricfast/core/types.hpp"
#include "metricfast/engine/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// One anchor's row, as a loss sees it.
template <class T> struct Row {
    Index anchor = 0;
    /// Database row that is left out, -1 for none.
    Index excluded = -1;
    Index count = 0;
    /// Database rows of the entries; null for all of 0..count-1.
    const std::int64_t *columns = nullptr;
    /// In: distances, or what else the loss is a function of; the excluded point's is +inf (-inf of
    /// inner products). Out: d loss / d value, in place; that of the excluded one is not used.
    T *values = nullptr;
    /// The database row that query 0 is, where queries are some of the database's rows.
    Index first = 0;

    bool leaves_itself_out() const { return excluded >= 0 && excluded == first + anchor; }
    /// How many points the anchor may be compared with, in a whole row.
    Index others() const { return count - (excluded >= 0 ? 1 : 0); }
    auto array() const { return Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>(values, count); }
    /// No derivatives: the anchor has no part.
    RowValue skip(Index dropped = 0) const {
        array().setZero();
        return {0, 0, dropped, true};
    }
};

/// The one call through which the engine, compiled once per precision, reaches every loss. Weights
/// of anchors are the engine's matter.
template <class T> class RowLoss : public Loss<T> {
  public:
    /// Throws std::invalid_argument unless the loss is one of so many queries and database points.
    virtual void check(Index /*queries*/, Index /*database*/) const {}
    /// ... and of the candidates, where rows are lists of them, or of none.
    virtual void check_candidates(const Candidates & /*candidates*/) const {}
    virtual RowKind kind() const { return RowKind::squared_distance; }
    /// True: most weights may be zero, and rows may be lists of the columns whose weights are not.
    virtual bool sparse() const { return false; }
    /// Columns whose squared distance exceeds the row's smallest by more than this change neither
    /// value nor weights in T, and may be left out; infinite where every column matters.
    virtual double window(Index /*columns*/) const {
        return std::numeric_limits<double>::infinity();
    }
    /// Called from several threads at once.
    virtual RowValue evaluate(Row<T> &row) const = 0;
};

METRICFAST_NAMESPACE_END
