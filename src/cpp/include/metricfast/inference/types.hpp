/// Arguments and results of inference.
#pragma once

#include <algorithm>
#include <cstdint>

#include "metricfast/core/views.hpp"

namespace metricfast {

/// Who wins among the classes T of most votes: the one that costs most, or least, the lowest class,
/// or the class of the nearest member of the set that is in T.
enum class Ties { pessimistic, optimistic, label, nearest };

/// Cost of the answer r if y is right: a matrix (classes x classes), or 1 unless r = y.
struct VoteLoss {
    const double *matrix = nullptr;
    Index classes = 0;

    double operator()(Index y, Index r) const {
        return matrix != nullptr ? matrix[y * classes + r] : (y == r ? 0.0 : 1.0);
    }
    double largest(Index y) const {
        if (matrix == nullptr)
            return classes > 1 ? 1.0 : 0.0;
        return *std::max_element(matrix + y * classes, matrix + (y + 1) * classes);
    }
};

struct InferenceOptions {
    Index k = 1;
    VoteLoss loss;
    Ties ties = Ties::pessimistic;
    bool greedy = false; ///< the heuristic of the literature in place of exact inference
};

/// Outputs, (queries x k) and one a query; null for those that are not wanted. A query without a
/// feasible set gets indices of -1 and a value of -inf.
struct InferenceOutput {
    std::int64_t *indices = nullptr; ///< in order of (D, index)
    double *values = nullptr; ///< -(sum of squared distances), + the vote's loss if augmented
    double *deltas = nullptr;
    std::uint8_t *feasible = nullptr;

    bool wanted() const { return indices != nullptr; }
};

/// Arguments of targeted and of loss-augmented inference.
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
};

} // namespace metricfast
