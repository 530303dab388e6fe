/// Labels and settings of losses.
#pragma once

#include "metricfast/core/views.hpp"

extern "C" {
/// Returns the anchor's loss.
/// \param values distances, or inner products, of the n database points; infinite for the excluded
///   one.
/// \param derivatives output: derivatives by `values`.
/// \param labels class codes or numbers of the database points.
/// \param excluded the excluded point, or -1.
/// \param label label of the anchor.
/// \param data the pointer given to the loss.
typedef double (*metricfast_row_function)(const double *values, double *derivatives,
                                          const double *labels, std::ptrdiff_t n,
                                          std::ptrdiff_t anchor, std::ptrdiff_t excluded,
                                          double label, void *data);
}

namespace metricfast {

/// Labels of all points; the memory must outlive the loss.
template <class L> struct Labels {
    Span<const L> queries;
    Span<const L> database;

    void check(Index n, Index m) const {
        require(queries.size() == n && database.size() == m,
                "there must be one label for each query and each database point");
    }
};

using ClassLabels = Labels<std::int64_t>; ///< non-negative class labels, for example ids

using Targets = Labels<double>; ///< numbers

/// Tags instead of classes: two points are related if they share a tag. Query i has the tags from
/// query_starts[i] to query_starts[i + 1] of query_tags. In the same way, `members` holds the
/// database points of each tag. The memory must outlive the loss.
struct Tags {
    Codes query_starts;
    Codes query_tags;
    Codes member_starts;
    Codes members;
    Index database; ///< number of database points

    /// A constructor with all members: for an aggregate, two lists in braces could be Tags or
    /// ClassLabels.
    Tags(Codes query_starts_, Codes query_tags_, Codes member_starts_, Codes members_,
         Index database_)
        : query_starts(query_starts_), query_tags(query_tags_), member_starts(member_starts_),
          members(members_), database(database_) {}

    Index queries() const { return query_starts.size() - 1; }
    void check() const {
        check_lists(query_starts, query_tags, member_starts.size() - 1);
        check_lists(member_starts, members, database);
        require(database >= 0, "there cannot be a negative number of database points");
    }

  private:
    static void check_lists(Codes starts, Codes values, Index limit) {
        bool fits = starts.size() > 0 && starts[0] == 0;
        for (Index i = 1; fits && i < starts.size(); ++i)
            fits = starts[i] >= starts[i - 1];
        require(fits && starts[starts.size() - 1] == values.size(),
                "lists of tags must begin where the one before ends");
        for (const std::int64_t value : values)
            require(value >= 0 && value < limit, "a tag or a point of a tag is out of range");
    }
};

/// Minus the sum of an anchor's probabilities of its class, or minus its log; of squared distances,
/// or plain ones.
struct NcaSettings {
    bool log_form = false;
    bool squared = true;
    Weights column_weights = nullptr; ///< weight per database point; null for ones
};

/// LMNN with `k` targets for each query, the rows (queries x k) of the database; -1 for none.
struct LmnnSettings {
    Codes targets;
    Index k = 0;
    double regularization = 0.5;
    double margin = 1;
};

/// The push of LMNN from limits of distances (queries x k). \param above output: the numbers of
/// distances below each limit.
struct LmnnPushSettings {
    View<const double> limits;
    View<double> above;
};

/// Generalized lifted structure: margins of the distances, squared or plain.
struct LiftedSettings {
    double positive_margin = 0;
    double negative_margin = 1;
    bool squared = false;
};

/// Triplets of an anchor in the loss: all with d_near + margin > d_far; of those the semi-hard
/// ones, d_far > d_near; or only the farthest near point with the nearest far point.
enum class Mining { all, semihard, hardest };

struct TripletSettings {
    double margin = 0.2;
    Mining mining = Mining::all;
    bool squared = true;
};

struct ContrastiveSettings {
    double positive_margin = 0;
    double negative_margin = 1;
    bool squared_hinge = false;
};

/// Settings of ratios of distances: delta = D + eps_distance, or its root; log(delta + eps_log).
struct RatioSettings {
    bool squared = true;
    bool drop_ties = true; ///< if false, eps_log times their mean is added to label distances
    double eps_distance = 0;
    double eps_log = 0;
};

/// f_p log(1 + sum_p exp(-alpha (s - base_p))) + f_n log(1 + sum_n exp(beta (s - base_n))) of inner
/// products s.
struct SoftplusSettings {
    double alpha, base_positive, f_positive;
    double beta, base_negative, f_negative;
};

/// Distance between continuous labels; `precomputed`: a matrix gives it.
enum class LabelMetric { sqeuclidean, euclidean, cityblock, precomputed };

/// Continuous labels of queries and of database points, one row each.
struct LabelPairs {
    LabelMetric metric = LabelMetric::sqeuclidean;
    View<const double> queries; ///< or precomputed distances (queries x database)
    View<const double> database;
};

} // namespace metricfast
