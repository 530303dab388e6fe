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
    // For fewer queries, or points that fit into a cache as floats, preparing a database costs more
    // than it saves.
    constexpr Index cached_coordinates = Index(1) << 19;
    const bool large = database.rows() * database.cols() >= cached_coordinates;
    const DatabaseOptions options{queries.rows() >= 1000, queries.rows() >= 64 && large,
                                  queries.rows() >= 1000, metric};
    Database(database, options, control)
        .search(queries, k, filter, squared, distances, indices, memory, control, within);
}

namespace detail {

/// Checks the arguments of kneighbors_per_class().
template <class T>
void check_classes(const Points &queries, const Points &database, Codes labels, Index classes,
                   Index k, Span<T> distances, Span<std::int64_t> indices) {
    check_search(queries, database, k);
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
}

} // namespace detail

/// The k nearest database rows of each class: like kneighbors, outputs (n, classes, k) contiguous,
/// padded with inf and -1 if a class has fewer than k points.
/// \param labels database labels in [0, classes).
template <class T>
void kneighbors_per_class(const Points &queries, const Points &database, Codes labels,
                          Index classes, Index k, Codes exclude, bool squared, Span<T> distances,
                          Span<std::int64_t> indices, const Control &control = {}) {
    detail::check_classes(queries, database, labels, classes, k, distances, indices);
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

/// The same for a prepared database, under its metric. Each class is searched by a filter.
template <class T>
void kneighbors_per_class(const Points &queries, const Database &database, Codes labels,
                          Index classes, Index k, Codes exclude, bool squared, Span<T> distances,
                          Span<std::int64_t> indices, DatabaseMemory &memory,
                          const Control &control = {}) {
    const Index n = queries.rows(), m = database.points().rows(), found = std::min(k, m);
    detail::check_classes(queries, database.points(), labels, classes, k, distances, indices);
    require_excluded(exclude, n, m, "kneighbors_per_class");
    std::fill(distances.begin(), distances.end(), std::numeric_limits<T>::infinity());
    std::fill(indices.begin(), indices.end(), -1);
    if (classes == 0 || found == 0)
        return;
    // Each query once for each class, in blocks.
    const Index block = std::max<Index>(1, 4096 / classes);
    std::vector<std::int64_t> ids, wanted, excluded;
    detail::Images copies(queries, queries.is_double());
    RowMatrix<T> values;
    RowMatrix<std::int64_t> rows;
    for (Index first = 0; first < n; first += block) {
        const Index count = std::min(block, n - first) * classes;
        ids.resize(static_cast<std::size_t>(count));
        wanted.resize(ids.size());
        for (Index i = 0; i < count; ++i) {
            ids[i] = first + i / classes;
            wanted[i] = i % classes;
        }
        copies.take(queries, ids);
        Filter filter;
        if (exclude != nullptr) {
            excluded.clear();
            for (const std::int64_t id : ids)
                excluded.push_back(exclude[id]);
            filter.exclude = excluded;
        }
        filter.query_labels = wanted;
        filter.labels = labels;
        filter.equal = true;
        renew(values, count, found);
        renew(rows, count, found);
        database.search<T>(copies.points(), found, filter, squared, view(values), view(rows),
                           memory, control);
        for (Index i = 0; i < count; ++i) {
            const Index at = (first * classes + i) * k;
            std::copy_n(&values(i, 0), found, distances.data() + at);
            std::copy_n(&rows(i, 0), found, indices.data() + at);
        }
    }
}

METRICFAST_NAMESPACE_END
