/// The interface of losses for the row engine: a function of the distances of one anchor.
#pragma once

#include <limits>

#include "metricfast/core/types.hpp"
#include "metricfast/engine/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The row of one anchor.
template <class T> struct Row {
    Index anchor = 0;
    /// Excluded database row, -1 for none.
    Index excluded = -1;
    Index count = 0;
    /// Database rows of the entries; null for 0..count-1.
    const std::int64_t *columns = nullptr;
    /// Input: the arguments of the loss, for example distances. The excluded point has +inf, or
    /// -inf for inner products. Output: d loss / d value, in place. The derivative of the excluded
    /// point is ignored.
    T *values = nullptr;
    /// The database row of query 0, if the queries are consecutive database rows; else -1.
    Index first = -1;

    bool leaves_itself_out() const {
        return first >= 0 && excluded >= 0 && excluded == first + anchor;
    }
    /// Returns the number of points in a whole row, without the excluded one.
    Index others() const { return count - (excluded >= 0 ? 1 : 0); }
    auto array() const { return Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>(values, count); }
    /// Sets all derivatives to zero and marks the anchor as skipped.
    RowValue skip(Index dropped = 0) const {
        array().setZero();
        return {0, 0, dropped, true};
    }
};

/// The virtual interface through which the engine, compiled once per precision, calls every loss.
/// The engine applies the weights of anchors.
template <class T> class RowLoss : public Loss<T> {
  public:
    /// Throws std::invalid_argument unless the labels match the numbers of queries and database
    /// points.
    virtual void check(Index /*queries*/, Index /*database*/) const {}
    /// Throws std::invalid_argument unless the loss supports these candidate lists, or their
    /// absence.
    virtual void check_candidates(const Candidates & /*candidates*/) const {}
    virtual RowKind kind() const { return RowKind::squared_distance; }
    /// Returns true if most weights may be zero. Rows may then be lists of the columns with nonzero
    /// weights.
    virtual bool sparse() const { return false; }
    /// Returns the width of the window. Columns whose squared distance exceeds the row's smallest
    /// by more than this may be omitted: they change neither value nor weights in T. Infinite if
    /// every column matters.
    virtual double window(Index /*columns*/) const {
        return std::numeric_limits<double>::infinity();
    }
    /// A power of two by which the engine multiplies values and derivatives, in double.
    virtual double unit() const { return 1; }
    /// Computes value and derivatives of a row. Several threads call it at once.
    virtual RowValue evaluate(Row<T> &row) const = 0;
};

/// Throws std::invalid_argument if the loss was not made by this library, or if there is none.
template <class T> const RowLoss<T> &of_rows(const Loss<T> &loss) {
    const auto *const rows = dynamic_cast<const RowLoss<T> *>(&loss);
    require(rows != nullptr, "row engine: the loss must be one of this library");
    return *rows;
}

METRICFAST_NAMESPACE_END
