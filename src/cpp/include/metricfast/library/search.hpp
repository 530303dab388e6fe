/// Distances, neighbours and inference in the compiled library.
#pragma once

#include <limits>
#include <memory>
#include <utility>

#include "metricfast/core/control.hpp"
#include "metricfast/distance/types.hpp"
#include "metricfast/inference/types.hpp"
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

/// A database prepared for many searches. It refers to its points unless it maps them. Any number
/// of threads may search at once.
class SearchDatabase {
  public:
    virtual ~SearchDatabase() = default;

    /// Finds the k nearest points of each query, nearest first, ties by the lower row.
    /// \param squared ignored, unless the metric is Euclidean.
    /// \param distances, indices (queries x k), written; padded with inf and -1 if the filter
    ///   leaves fewer points.
    virtual void search(const Points &queries, Index k, const Filter &filter, bool squared,
                        View<float> distances, View<std::int64_t> indices,
                        const Control &control = {}) const = 0;
    virtual void search(const Points &queries, Index k, const Filter &filter, bool squared,
                        View<double> distances, View<std::int64_t> indices,
                        const Control &control = {}) const = 0;

    /// Finds all points within a radius of each query.
    virtual void radius_neighbors(const Points &queries, const RadiusSettings &settings,
                                  NeighborLists<float> &found,
                                  const Control &control = {}) const = 0;
    virtual void radius_neighbors(const Points &queries, const RadiusSettings &settings,
                                  NeighborLists<double> &found,
                                  const Control &control = {}) const = 0;

    /// Targeted and loss-augmented inference, for Euclidean distances.
    virtual void infer(const Points &queries, const InferenceProblem &problem,
                       const Control &control = {}) const = 0;

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

/// Functions that do not depend on the precision of results.
class PointKernels {
  public:
    virtual ~PointKernels() = default;

    virtual bool all_finite(const Points &points) const = 0;
    /// Returns the largest coordinate and the largest offset from `from`, both times `unit`.
    virtual std::pair<double, double> extent(const Points &points, Span<const double> from,
                                             double unit) const = 0;
    /// \param some a sample of the database.
    virtual Frame frame(const Points &some, double unit, double spread) const = 0;
    /// Returns the offset to subtract from points before embed(). The subtraction is exact.
    virtual std::vector<double> embedding_origin(const Points &points) const = 0;
    /// Computes out = (x - origin) L^T.
    virtual void embed(const Points &x, const Points &L, Span<const double> origin,
                       View<double> out, const Control &control = {}) const = 0;
    /// Finds, for each point, the points of other classes within its radius. \param limit maximum
    /// total length of the lists.
    virtual CandidateLists find_impostors(const Points &points, Codes labels, Index classes,
                                          Weights radius, std::size_t limit,
                                          const Control &control = {}) const = 0;
    virtual std::unique_ptr<SearchDatabase> prepare_database(const Points &points,
                                                             const Maps &maps = {},
                                                             DatabaseOptions options = {},
                                                             const Control &control = {}) const = 0;
    /// \param state must outlive the result.
    virtual std::unique_ptr<SearchDatabase>
    restore_database(const Points &points, const DatabaseState &state,
                     Metric metric = Metric::euclidean) const = 0;
    /// Summarises, for each query, the ranks of the points with its label, among the points that
    /// the filter allows. \param out one per query, written.
    virtual void rank_classes(const Points &queries, const Points &database, const Maps &maps,
                              Codes query_labels, Codes labels, const Filter &filter, Metric metric,
                              Span<RankSummary> out, const Control &control = {}) const = 0;
    /// Returns true if the processor has instructions for products of 8-bit integers.
    virtual bool has_int8() const = 0;
    virtual void infer(const Points &queries, const Points &database,
                       const InferenceProblem &problem, const Control &control = {}) const = 0;
};

/// \tparam T the precision of results.
template <class T> class SearchKernels {
  public:
    virtual ~SearchKernels() = default;

    /// Computes out(i, j), the distance from query i to database row j.
    virtual void pairwise_distances(const Points &queries, const Points &database, const Maps &maps,
                                    bool squared, View<T> out,
                                    const Control &control = {}) const = 0;
    /// The same for a part of a database of `columns` points, with the frame of the whole database.
    /// \param cancelled one count per block of `pairwise_block()` queries, summed over the parts.
    virtual void pairwise_distances_of_part(const Points &queries, const Points &part,
                                            const Frame &frame, Index columns, bool squared,
                                            View<T> out, Span<std::int64_t> cancelled,
                                            const Control &control = {}) const = 0;
    virtual Index pairwise_block() const = 0;
    virtual Index most_cancelled(Index rows, Index columns) const = 0;

    virtual void paired_distances(const Points &x, const Points &y, const PairList &pairs,
                                  const Maps &maps, bool squared, Span<T> out,
                                  const Control &control = {}) const = 0;
    /// Finds the k nearest database rows of each query, nearest first, ties by the lower row.
    /// \param within null, or the squared distance per query beyond which neighbours are not
    ///   needed.
    virtual void kneighbors(const Points &queries, const Points &database, Index k,
                            const Maps &maps, const Filter &filter, bool squared, View<T> distances,
                            View<std::int64_t> indices, const Control &control = {},
                            Span<const double> within = nullptr,
                            Metric metric = Metric::euclidean) const = 0;
    /// Finds the k nearest points of each class, (queries, classes, k), padded with inf and -1 if a
    /// class has fewer than k points.
    virtual void kneighbors_per_class(const Points &queries, const Points &database, Codes labels,
                                      Index classes, Index k, const Maps &maps, Codes exclude,
                                      bool squared, Span<T> distances, Span<std::int64_t> indices,
                                      const Control &control = {}) const = 0;
    virtual NeighborLists<T> radius_neighbors(const Points &queries, const Points &database,
                                              const RadiusSettings &settings, const Maps &maps,
                                              const Control &control = {},
                                              Metric metric = Metric::euclidean) const = 0;
    /// Computes out(i, v) = sum_j p_ij values(j, v), where p_i is the softmax over j of
    /// log_weight_j - |q_i - x_j|, in T and in one pass over the database.
    /// \param values (database x outputs).
    /// \param log_weight one per database row, or null for zeros.
    /// \param exclude null, or the excluded row per query, -1 for none.
    /// \param out (queries x outputs), written; NaN if no row is left.
    virtual void soft_votes(const Points &queries, const Points &database, View<const T> values,
                            Weights log_weight, Codes exclude, View<double> out,
                            const Control &control = {}) const = 0;
    /// \param distances squared, (queries x database).
    virtual void infer(View<const T> distances, const InferenceProblem &problem,
                       const Control &control = {}) const = 0;
};

} // namespace metricfast
