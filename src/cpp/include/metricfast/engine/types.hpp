/// Arguments and results of the row engine.
#pragma once

#include "metricfast/core/views.hpp"

namespace metricfast {

/// The argument of a loss.
enum class RowKind { squared_distance, distance, inner_product };

/// Contribution of one anchor.
struct RowValue {
    double value = 0;
    Index terms = 0;      ///< active terms, for the reduction mean_nonzero
    Index dropped = 0;    ///< neighbours left out, for example because their labels are tied
    bool skipped = false; ///< the anchor has no part in the loss (no neighbour it could use)
};

/// A loss of the library, which refers to the labels that it was made of.
template <class T> class Loss {
  public:
    virtual ~Loss() = default;
};

enum class Reduction { sum, mean, mean_nonzero };

/// Columns that a row needs, in compressed sparse rows; null members: all columns.
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
    bool symmetric = false; ///< both are the same points: gradients of both roles are added
    Index first = 0;        ///< the database row that query 0 is, where queries are some of these
    Codes exclude;          ///< per query a database row to leave out, -1: none
    Weights weights;        ///< per query; none: 1
    Candidates candidates;
    Reduction reduction = Reduction::sum;
    std::size_t memory_budget = std::size_t(1) << 30; ///< bytes of working memory, all threads
    Index lanes = 0; ///< shares of the work, at most; 0: as many as serve

    Index excluded(Index i) const { return exclude != nullptr ? exclude[i] : -1; }
    double weight(Index i) const { return weights != nullptr ? weights[i] : 1.0; }
    bool listed() const { return candidates.row_starts != nullptr; }
};

struct RowTotals {
    double value = 0;
    Index terms = 0;
    Index anchors = 0; ///< anchors that took part
    Index skipped = 0;
    Index dropped = 0;
    double weight = 0;         ///< sum of the weights of the anchors that took part
    double weighted_terms = 0; ///< terms, each times its anchor's weight

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

    /// Factor of sums under a reduction.
    double factor(Reduction reduction) const {
        const double by = reduction == Reduction::sum    ? 1.0
                          : reduction == Reduction::mean ? weight
                                                         : weighted_terms;
        return by > 0 ? 1.0 / by : 1.0;
    }
};

} // namespace metricfast
