/// Arguments and results of the row engine.
#pragma once

#include "metricfast/core/views.hpp"

namespace metricfast {

/// The argument of a loss.
enum class RowKind { squared_distance, distance, inner_product };

/// The contribution of one anchor.
struct RowValue {
    double value = 0;
    Index terms = 0;      ///< active terms, for the reduction mean_nonzero
    Index dropped = 0;    ///< omitted neighbours, for example because of tied labels
    bool skipped = false; ///< the anchor does not contribute, for lack of usable neighbours
};

/// A loss. It refers to the labels passed at its construction.
template <class T> class Loss {
  public:
    virtual ~Loss() = default;
};

enum class Reduction { sum, mean, mean_nonzero };

/// Lists of the columns that each row needs, in compressed sparse row format. Null members stand
/// for all columns.
struct Candidates {
    Codes row_starts; ///< queries + 1 entries
    Codes columns;

    void check(Index n, Index m) const {
        require(row_starts.size() == n + 1,
                "row engine: candidate lists must have queries + 1 starts");
        require(row_starts[0] == 0, "row engine: candidate lists must start at 0");
        for (Index i = 0; i < n; ++i)
            require(row_starts[i] <= row_starts[i + 1], "row engine: candidate lists must ascend");
        require(row_starts[n] == columns.size(),
                "row engine: candidate lists must end where their columns do");
        for (const std::int64_t column : columns)
            require(column >= 0 && column < m, "row engine: a candidate is outside the database");
    }
};

/// Queries and database are embedded points, (n x p) and (m x p).
template <class T> struct RowProblem {
    View<const T> queries;
    View<const T> database;
    bool symmetric = false; ///< one set of points in both roles, whose gradients are added
    /// Database row of query 0, if the queries are consecutive database rows; else -1. Symmetric
    /// problems do not need it.
    Index first = -1;
    Codes exclude;   ///< excluded database row per query, -1 for none
    Weights weights; ///< weight per query, finite and not negative; empty for ones
    Candidates candidates;
    Reduction reduction = Reduction::sum;
    std::size_t memory_budget = std::size_t(1) << 30; ///< bytes of working memory, all threads
    Index lanes = 0; ///< maximum number of shares of the work; 0 to choose it

    Index excluded(Index i) const { return exclude != nullptr ? exclude[i] : -1; }
    double weight(Index i) const { return weights != nullptr ? weights[i] : 1.0; }
    bool listed() const { return candidates.row_starts != nullptr; }
};

struct RowTotals {
    double value = 0;
    Index terms = 0;
    Index anchors = 0; ///< number of contributing anchors
    Index skipped = 0;
    Index dropped = 0;
    double weight = 0;         ///< sum of the weights of the contributing anchors
    double weighted_terms = 0; ///< number of terms, weighted by anchors

    void add(const RowValue &row, double by) {
        value += by > 0 ? by * row.value : 0.0;
        terms += by > 0 ? row.terms : 0;
        skipped += row.skipped;
        dropped += row.dropped;
        weighted_terms += by * static_cast<double>(row.terms);
        weight += row.skipped ? 0.0 : by;
    }

    void add(const RowTotals &other) {
        value += other.value;
        terms += other.terms;
        skipped += other.skipped;
        dropped += other.dropped;
        weight += other.weight;
        weighted_terms += other.weighted_terms;
    }

    /// Returns the factor of the sums for a reduction.
    double factor(Reduction reduction) const {
        const double by = reduction == Reduction::sum    ? 1.0
                          : reduction == Reduction::mean ? weight
                                                         : weighted_terms;
        return by > 0 ? 1.0 / by : 1.0;
    }
};

} // namespace metricfast
