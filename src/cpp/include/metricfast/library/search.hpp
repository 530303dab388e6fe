/// Distances, neighbours and inference in the compiled library.
#pragma once

#include <limits>
#include <memory>
#include <utility>

#include "metricfast/distance/types.hpp"
#include "metricfast/inference/types.hpp"
#include "metricfast/library/kernel.hpp"
#include "metricfast/search/types.hpp"

namespace metricfast {

/// The maps U and V of a distance |U x - V y|, in float or double. A map without rows stands for
/// the identity. Equal U and V give the same results as one map.
struct Maps {
    Points query = View<const double>();
    Points database = View<const double>(); ///< ignored if `same` is true
    bool same = true; ///< one map (a Mahalanobis distance), applied to differences

    Maps() = default;
    explicit Maps(const Points &L) : query(L) {}
    Maps(const Points &U, const Points &V) : query(U), database(V), same(false) {}

    bool any() const { return query.rows() > 0; }
};

/// A database prepared for many searches by DatabaseKernels. It refers to its points unless it maps
/// them. Any number of threads may search at once.
class SearchDatabase {
  public:
    virtual ~SearchDatabase() = default;

    /// The searched points, after the map if there is one.
    virtual const Points &points() const = 0;
    virtual SearchRoute route() const = 0;
    /// The number of cells; 1 for points without clusters.
    virtual Index cells() const = 0;
    /// The memory of the database, without points that it refers to.
    virtual std::size_t bytes() const = 0;
    /// Returns the state for restore_database(), which refers to this object. Only the route
    /// `integers` has a state.
    virtual DatabaseState state() const = 0;
};

// The members of PointKernels. Those of the second list have no prepared database.
#define METRICFAST_POINT_KERNELS(DO)                                                               \
    DO(prepare_database)                                                                           \
    DO(restore_database)                                                                           \
    DO(infer)                                                                                      \
    DO(infer_prepared)                                                                             \
    METRICFAST_POINT_FUNCTIONS(DO)
#define METRICFAST_POINT_FUNCTIONS(DO)                                                             \
    DO(all_finite)                                                                                 \
    DO(extent)                                                                                     \
    DO(frame)                                                                                      \
    DO(embedding_origin)                                                                           \
    DO(embed)                                                                                      \
    DO(find_impostors)                                                                             \
    DO(rank_classes)                                                                               \
    DO(has_int8)

/// Functions that do not depend on the precision of results.
struct PointKernels {
    Kernel<bool(const Points &points)> all_finite;
    /// Returns the largest coordinate and the largest offset from `from`, both times `unit`.
    Kernel<std::pair<double, double>(const Points &points, Span<const double> from, double unit)>
        extent;
    /// \param some a sample of the database.
    Kernel<Frame(const Points &some, double unit, double spread)> frame;
    /// Returns the offset to subtract from points before embed(). The subtraction is exact.
    Kernel<std::vector<double>(const Points &points)> embedding_origin;
    /// Computes out = (x - origin) L^T.
    Kernel<void(const Points &x, const Points &L, Span<const double> origin, View<double> out,
                const Control &control)>
        embed;
    /// Finds, for each point, the points of other classes within its radius. \param limit maximum
    /// total length of the lists.
    Kernel<CandidateLists(const Points &points, Codes labels, Index classes, Weights radius,
                          std::size_t limit, const Control &control)>
        find_impostors;
    Kernel<std::unique_ptr<SearchDatabase>(const Points &points, const Maps &maps,
                                           DatabaseOptions options, const Control &control)>
        prepare_database;
    /// \param state must outlive the result.
    Kernel<std::unique_ptr<SearchDatabase>(const Points &points, const DatabaseState &state,
                                           Metric metric)>
        restore_database;
    /// Summarises, for each query, the ranks of the points with its label, among the points that
    /// the filter allows. \param out one per query, written.
    Kernel<void(const Points &queries, const Points &database, const Maps &maps, Codes query_labels,
                Codes labels, const Filter &filter, Metric metric, Span<RankSummary> out,
                const Control &control)>
        rank_classes;
    /// Returns true if the processor has instructions for products of 8-bit integers.
    Kernel<bool()> has_int8;
    /// Targeted and loss-augmented inference: for Euclidean distances, or under the metric
    /// `cosine`, for those of points of length 1, whose squares are twice the distances of the
    /// metric.
    Kernel<void(const Points &queries, const SearchDatabase &database,
                const InferenceProblem &problem, const Control &control)>
        infer_prepared;
    Kernel<void(const Points &queries, const Points &database, const InferenceProblem &problem,
                const Control &control)>
        infer;
};

// The members of SearchKernels. Those of the second list read or write an array of T.
#define METRICFAST_SEARCH_KERNELS(DO)                                                              \
    DO(pairwise_block)                                                                             \
    DO(most_cancelled)                                                                             \
    DO(radius_neighbors)                                                                           \
    DO(infer_from_distances)                                                                       \
    METRICFAST_SEARCH_FUNCTIONS(DO)
#define METRICFAST_SEARCH_FUNCTIONS(DO)                                                            \
    DO(pairwise_distances)                                                                         \
    DO(pairwise_distances_of_part)                                                                 \
    DO(paired_distances)                                                                           \
    DO(kneighbors)                                                                                 \
    DO(kneighbors_per_class)                                                                       \
    DO(soft_votes)

/// \tparam T the precision of results.
template <class T> struct SearchKernels {
    /// Computes out(i, j), the distance from query i to database row j.
    Kernel<void(const Points &queries, const Points &database, const Maps &maps, bool squared,
                View<T> out, const Control &control)>
        pairwise_distances;
    /// The same for a part of a database of `columns` points, with the frame of the whole database.
    /// \param cancelled one count per block of `pairwise_block()` queries, summed over the parts.
    Kernel<void(const Points &queries, const Points &part, const Frame &frame, Index columns,
                bool squared, View<T> out, Span<std::int64_t> cancelled, const Control &control)>
        pairwise_distances_of_part;
    Kernel<Index()> pairwise_block;
    Kernel<Index(Index rows, Index columns)> most_cancelled;

    Kernel<void(const Points &x, const Points &y, const Maps &maps, const PairList &pairs,
                bool squared, Span<T> out, const Control &control)>
        paired_distances;
    /// Finds the k nearest database rows of each query, nearest first, ties by the lower row.
    /// \param within null, or the squared distance per query beyond which neighbours are not
    ///   needed.
    Kernel<void(const Points &queries, const Points &database, const Maps &maps, Index k,
                const Filter &filter, bool squared, View<T> distances, View<std::int64_t> indices,
                const Control &control, Span<const double> within, Metric metric)>
        kneighbors;
    /// Finds the k nearest points of each class, (queries, classes, k), padded with inf and -1 if a
    /// class has fewer than k points.
    Kernel<void(const Points &queries, const Points &database, const Maps &maps, Codes labels,
                Index classes, Index k, Codes exclude, bool squared, Span<T> distances,
                Span<std::int64_t> indices, const Control &control)>
        kneighbors_per_class;
    Kernel<NeighborLists<T>(const Points &queries, const Points &database, const Maps &maps,
                            const RadiusSettings &settings, const Control &control, Metric metric)>
        radius_neighbors;
    /// Computes out(i, v) = sum_j p_ij values(j, v), where p_i is the softmax over j of
    /// log_weight_j - |q_i - x_j|, in T and in one pass over the database.
    /// \param values (database x outputs).
    /// \param log_weight one per database row, or null for zeros.
    /// \param exclude null, or the excluded row per query, -1 for none.
    /// \param out (queries x outputs), written; NaN if no row is left.
    Kernel<void(const Points &queries, const Points &database, View<const T> values,
                Weights log_weight, Codes exclude, View<double> out, const Control &control)>
        soft_votes;
    /// \param distances squared, (queries x database).
    Kernel<void(View<const T> distances, const InferenceProblem &problem, const Control &control)>
        infer_from_distances;
};

// The members of DatabaseKernels.
#define METRICFAST_DATABASE_KERNELS(DO)                                                            \
    DO(kneighbors)                                                                                 \
    DO(radius_neighbors)                                                                           \
    DO(kneighbors_per_class)                                                                       \
    DO(soft_votes)

/// Searches of a prepared database, with the results of the functions of these names in
/// SearchKernels.
template <class T> struct DatabaseKernels {
    /// \param squared ignored, unless the metric is Euclidean.
    /// \param distances, indices (queries x k), written; padded with inf and -1 if the filter
    ///   leaves fewer points.
    Kernel<void(const Points &queries, const SearchDatabase &database, Index k,
                const Filter &filter, bool squared, View<T> distances, View<std::int64_t> indices,
                const Control &control)>
        kneighbors;
    Kernel<NeighborLists<T>(const Points &queries, const SearchDatabase &database,
                            const RadiusSettings &settings, const Control &control)>
        radius_neighbors;
    Kernel<void(const Points &queries, const SearchDatabase &database, Codes labels, Index classes,
                Index k, Codes exclude, bool squared, Span<T> distances, Span<std::int64_t> indices,
                const Control &control)>
        kneighbors_per_class;
    /// The metric must be Euclidean.
    Kernel<void(const Points &queries, const SearchDatabase &database, View<const T> values,
                Weights log_weight, Codes exclude, View<double> out, const Control &control)>
        soft_votes;
};

} // namespace metricfast
