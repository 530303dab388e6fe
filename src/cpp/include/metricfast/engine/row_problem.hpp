/// Validation of problems of the row engine.
#pragma once

#include "metricfast/engine/row_loss.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Throws std::invalid_argument unless the problem is valid, for any loss.
template <class T> void check(const RowProblem<T> &problem) {
    const View<const T> queries = problem.queries, database = problem.database;
    const Index n = queries.rows, m = database.rows;
    require(queries.cols == database.cols, "row engine: queries and database differ in width");
    const bool same = queries.data == database.data && n == m && queries.stride == database.stride;
    require(!problem.symmetric || same, "row engine: symmetric problems have one set of points: "
                                        "queries and database must be the same view");
    require(std::max(n, m) < std::numeric_limits<std::int32_t>::max() / 2,
            "row engine: more than 2^30 points");
    require_each(problem.weights, n, "row engine: weights must have one entry per query");
    require_weights(problem.weights, "row engine: weights must be finite and not negative");
    require(problem.first < 0 || problem.first <= m - n,
            "row engine: the rows from `first` on are not in the database");
    require_excluded(problem.exclude, n, m, "row engine");
    if (problem.listed())
        problem.candidates.check(n, m);
}

/// Throws std::invalid_argument unless the problem is valid and the loss supports it.
template <class T> void check(const RowProblem<T> &problem, const RowLoss<T> &loss) {
    check(problem);
    require(!problem.listed() || loss.sparse(),
            "row engine: candidate lists need a loss with sparse weights");
    require(!problem.listed() || loss.kind() != RowKind::inner_product,
            "row engine: candidate lists need a loss of distances");
    loss.check(problem.queries.rows, problem.database.rows);
    loss.check_candidates(problem.candidates);
}

METRICFAST_NAMESPACE_END
