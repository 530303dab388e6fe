/// Exact k nearest neighbours, over the whole database or class by class, without an n x m matrix.
#pragma once

#include "metricfast/search/database.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The k nearest database rows of each query, nearest first, ties by the lower row.
///
/// \tparam T precision of the reported distances; neighbours are chosen and ordered by sum (a-b)^2
///   in double, in index order, for any T; distances that overflow T are infinite. If the filter
///   allows a query fewer than k rows, inf and -1 are written.
/// \param distances, indices (queries.rows x k), row-major, written.
/// \param within see Database::search().
template <class T>
void kneighbors(const Points &queries, const Points &database, Index k, const Filter &filter,
                bool squared, View<T> distances, View<std::int64_t> indices,
                const Control &control = {}, Span<const double> within = nullptr,
                Metric metric = Metric::euclidean) {
    detail::check_search(queries, database, k, distances, indices);
    DatabaseMemory memory;
    // For fewer queries, preparing a database costs more than it saves.
    const DatabaseOptions options{queries.rows() >= 1000, queries.rows() >= 64,
                                  queries.rows() >= 1000, metric};
    Database(database, options, control)
        .search(queries, k, filter, squared, distances, indices, memory, control, within);
}

/// The k nearest database rows of each class: like kneighbors, outputs (n, classes, k) contiguous,
/// padded with inf and -1 if a class has fewer than k points.
/// \param labels database labels in [0, classes).
template <class T>
void kneighbors_per_class(const Points &queries, const Points &database, Codes labels,
                          Index classes, Index k, Codes exclude, bool squared, Span<T> distances,
                          Span<std::int64_t> indices, const Control &control = {}) {
    detail::check_search(queries, database, k);
    const Index lists = classes >= 0 && queries.rows() > 0 ? indices.size() / queries.rows() : 0;
    require(classes >= 0 && distances.size() == indices.size() &&
                is_matrix(indices.size(), queries.rows(), lists) &&
                (queries.rows() == 0 || is_matrix(lists, classes, k)),
            "kneighbors_per_class: distances and indices must be (n_queries, classes, k), and "
            "classes not negative");
    require(labels.size() == database.rows(),
            "kneighbors_per_class: there must be one label for each database point");
    for (const std::int64_t label : labels)
        require(label >= 0 && label < classes, "kneighbors_per_class: label out of range");
    if (queries.rows() == 0 || classes == 0)
        return;
    Segments rows;
    rows.order = order_by_label(labels, classes, &rows.starts);
    const Space space(database);
    const PreparedDatabase prepared(space, frame_of(database, queries), std::move(rows), true,
                                    control);
    const double scale = prepared.frame().exact_scale;
    SearchMemory memory;
    const Queries asked(queries);
    SegmentSearch(prepared, asked, k, exclude)
        .run(control, memory, [&](Index i, Index s, const std::vector<Neighbor> &found) {
            const Index at = (i * classes + s) * k;
            detail::write_neighbors(found, distances.data() + at, indices.data() + at, k,
                                    [&](double d) { return unscaled<T>(d, scale, squared); });
        });
}

METRICFAST_NAMESPACE_END
