/// Arguments and results of inference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "metricfast/core/views.hpp"

namespace metricfast {

/// The winner among classes with equally many votes: the one with the highest or lowest cost, the
/// lowest class, or the class of the nearest member of the set.
enum class Ties { pessimistic, optimistic, label, nearest };

/// Cost of answering r if y is right: a matrix (classes x classes), or 1 unless r = y.
struct VoteLoss {
    Span<const double> matrix; ///< (classes x classes), row-major, or null
    Index classes = 0;

    double operator()(Index y, Index r) const {
        return matrix != nullptr ? matrix[y * classes + r] : (y == r ? 0.0 : 1.0);
    }
    double largest(Index y) const {
        if (matrix == nullptr)
            return classes > 1 ? 1.0 : 0.0;
        const double *row = matrix.data() + y * classes;
        return *std::max_element(row, row + classes);
    }

    void check() const {
        // Classes are numbered by 32 bits.
        require(classes >= 0 && classes <= std::numeric_limits<std::int32_t>::max(),
                "inference: classes must be from 0 to 2^31 - 1");
        require(matrix == nullptr || is_matrix(matrix.size(), classes, classes),
                "inference: the loss matrix must be (classes, classes)");
        require_weights(matrix, "inference: the loss matrix must hold finite numbers from 0");
        for (Index y = 0; matrix != nullptr && y < classes; ++y)
            require((*this)(y, y) == 0, "inference: the loss matrix must be zero on the diagonal: "
                                        "a right answer costs nothing");
    }
};

struct InferenceOptions {
    Index k = 1;
    VoteLoss loss;
    Ties ties = Ties::pessimistic;
    bool greedy = false; ///< heuristic from the literature instead of exact inference
};

/// Outputs, (queries x k) or one per query; null if not needed. A query without a feasible set gets
/// indices of -1 and a value of -inf.
struct InferenceOutput {
    Span<std::int64_t> indices; ///< in order of (D, index)
    Span<double> values;        ///< -(sum of squared distances), + the vote's loss if augmented
    Span<double> deltas;
    Span<std::uint8_t> feasible;

    bool wanted() const {
        return indices != nullptr || values != nullptr || deltas != nullptr || feasible != nullptr;
    }

    void check(Index queries, Index k) const {
        require(indices == nullptr || is_matrix(indices.size(), queries, k),
                "inference: indices must be (n_queries, n_neighbors)");
        const char *const one = "inference: outputs must have one value per query";
        require_each(values, queries, one);
        require_each(deltas, queries, one);
        require_each(feasible, queries, one);
    }
};

/// Arguments of targeted and of loss-augmented inference.
struct InferenceProblem {
    Codes query_labels;
    Codes database_labels; ///< in [0, options.loss.classes), like the queries' labels
    Codes exclude;         ///< excluded database row per query, -1 for none
    InferenceOptions options;
    InferenceOutput targeted;
    InferenceOutput augmented;
    Span<double> plain;       ///< cost of the vote of the k nearest points, 0 for a query with
                              ///< fewer candidates; null if not needed
    Span<std::uint8_t> wrong; ///< whether that vote is wrong, with ties going to the nearest

    void check(Index queries, Index database) const {
        check_sizes(queries, database);
        for (const std::int64_t label : database_labels)
            require(label >= 0 && label < options.loss.classes,
                    "inference: database label out of range");
    }

    /// Checks all but the labels of the database.
    void check_sizes(Index queries, Index database) const {
        require(options.k >= 1, "inference: n_neighbors must be at least 1");
        options.loss.check();
        targeted.check(queries, options.k);
        augmented.check(queries, options.k);
        require_each(plain, queries, "inference: plain must have one value per query");
        require_each(wrong, queries, "inference: wrong must have one value per query");
        require(query_labels.size() == queries && database_labels.size() == database,
                "inference: there must be one label for each query and each database point");
        require_excluded(exclude, queries, database, "inference");
        for (const std::int64_t label : query_labels)
            require(label >= 0 && label < options.loss.classes,
                    "inference: query label out of range");
    }

    /// Returns the row that a query excludes, or -1.
    std::int64_t excluded(std::int64_t query) const {
        return exclude != nullptr ? exclude[query] : -1;
    }
};

} // namespace metricfast
