/// What targeted and loss-augmented inference are asked for many queries, and
/// where they answer.
#pragma once

#include "metricfast/distance/distance.hpp"
#include "metricfast/inference/sets.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Where results go, (queries x k) and one a query; null: not wanted. A query
/// without a feasible set gets indices of -1 and a value of -inf.
struct InferenceOutput {
    std::int64_t *indices = nullptr; ///< in order of (D, index)
    double *values = nullptr; ///< -(sum of squared distances), + the vote's loss if augmented
    double *deltas = nullptr;
    std::uint8_t *feasible = nullptr;

    bool wanted() const { return indices != nullptr; }

    void write(Index query, Index k, const NeighborSet &set,
               const std::vector<Candidate> &candidates, bool augmented) const {
        for (Index i = 0; i < k; ++i)
            indices[query * k + i] = set.feasible ? candidates[set.members[i]].index : -1;
        values[query] = set.feasible ? (augmented ? set.delta : 0.0) - set.cost
                                     : -std::numeric_limits<double>::infinity();
        deltas[query] = set.feasible ? set.delta : 0.0;
        feasible[query] = set.feasible;
    }
};

/// What both forms of inference are asked.
struct InferenceProblem {
    Codes query_labels;
    Codes database_labels; ///< in [0, options.loss.classes), as the queries'
    Codes exclude;         ///< per query a database row to leave out, -1: none
    InferenceOptions options;
    InferenceOutput targeted;
    InferenceOutput augmented;
    double *plain = nullptr; ///< what the vote of the k nearest points costs; null: not wanted
    std::uint8_t *wrong = nullptr; ///< whether it is wrong, ties going to the nearest; likewise

    void check(Index queries, Index database) const {
        require(options.k >= 1, "inference: n_neighbors must be at least 1");
        require(query_labels.size() == queries && database_labels.size() == database,
                "inference: there must be one label for each query and each database point");
        require_each(exclude, queries, "inference: exclude must have one entry a query");
        for (const std::int64_t label : query_labels)
            require(label >= 0 && label < options.loss.classes,
                    "inference: query label out of range");
        for (const std::int64_t label : database_labels)
            require(label >= 0 && label < options.loss.classes,
                    "inference: database label out of range");
    }

    /// The row that a query leaves out; -1: none.
    std::int64_t excluded(std::int64_t query) const {
        return exclude != nullptr ? exclude[query] : -1;
    }

    void solve(SetSolver &solver, Index query, const std::vector<Candidate> &candidates) const {
        solver.set_query(query_labels[query], candidates);
        if (plain != nullptr)
            plain[query] = solver.plain().delta;
        if (wrong != nullptr)
            wrong[query] = solver.answer() != query_labels[query];
        if (targeted.wanted())
            targeted.write(query, options.k, solver.targeted(), candidates, false);
        if (augmented.wanted())
            augmented.write(query, options.k, solver.augmented(), candidates, true);
    }
};

/// Inference from squared distances that are given, (queries x database).
template <class T>
void infer_from_distances(View<const T> distances, const InferenceProblem &problem,
                          const Control &control = {}) {
    problem.check(distances.rows, distances.cols);
    constexpr Index block = 16;
    parallel_blocks((distances.rows + block - 1) / block, control, [&](Index b, Worker &) {
        SetSolver solver(problem.options);
        std::vector<Candidate> candidates;
        for (Index i = b * block; i < std::min(distances.rows, (b + 1) * block); ++i) {
            candidates.clear();
            for (Index j = 0; j < distances.cols; ++j) {
                const double distance = static_cast<double>(distances.row(i)[j]);
                require(!std::isnan(distance), "inference: distances must not be NaN");
                if (problem.excluded(i) != j)
                    candidates.push_back(
                        {distance, j, static_cast<std::int32_t>(problem.database_labels[j])});
            }
            std::sort(candidates.begin(), candidates.end());
            problem.solve(solver, i, candidates);
        }
    });
}

METRICFAST_NAMESPACE_END
