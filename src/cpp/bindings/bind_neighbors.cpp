#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

void nearest(const py::array &x, const py::array &y, Index k, const std::string &metric,
             const py::object &U, const py::object &V, const py::object &exclude,
             const py::object &allowed, const py::object &labels, const py::object &within,
             bool squared, py::array distances, py::array indices, int threads) {
    const Maps given = maps(U, V);
    const Metric of = metric_of(metric);
    const Points queries = points(x), database = points(y);
    const RowFilter filter(exclude, allowed, labels, queries.rows(), database.rows());
    const auto most = elements<double>(within, queries.rows(), "within");
    const View<std::int64_t> rows = writable<std::int64_t>(indices);
    by_precision(distances, [&](auto zero) {
        using T = decltype(zero);
        const View<T> result = writable<T>(distances);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().search.kneighbors(queries, database, k, given, filter, squared, result,
                                            rows, run, most, of);
    });
}

void nearest_per_class(const py::array &x, const py::array &y, const py::object &labels,
                       Index classes, Index k, const py::object &U, const py::object &V,
                       const py::object &exclude, bool squared, py::array distances,
                       py::array indices, int threads) {
    const Maps given = maps(U, V);
    const Points queries = points(x), database = points(y);
    const Indices codes(labels, database.rows(), "labels");
    const Indices excluded(exclude, queries.rows(), "exclude");
    const Index size = queries.rows() * classes * k;
    const auto rows = writable_elements<std::int64_t>(indices, size, "indices");
    by_precision(distances, [&](auto zero) {
        using T = decltype(zero);
        const auto result = writable_elements<T>(distances, size, "distances");
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().search.kneighbors_per_class(queries, database, codes, classes, k, given,
                                                      excluded, squared, result, rows, run);
    });
}

/// Returns (row_starts, columns), or None if the lists have more than `limit` entries.
py::object impostors(const py::array &x, const py::object &labels, Index classes,
                     const py::object &radius, std::size_t limit, int threads) {
    const Points all = points(x);
    const Indices codes(labels, all.rows(), "labels");
    const auto reach = elements<double>(radius, all.rows(), "radius");
    CandidateLists lists;
    {
        const Control run = control(threads);
        const Released release;
        lists = kernels().points.find_impostors(all, codes, classes, reach, limit, run);
    }
    if (!lists.complete)
        return py::none();
    return py::make_tuple(copied(lists.row_starts), copied(lists.columns));
}

/// Returns (distances, indices, row_starts, number of pairs). The lists are empty if there are more
/// than `most` pairs. Distances are float32 if `single` is true.
py::object within_radius(const py::array &x, const py::array &y, double radius,
                         const std::string &metric, const py::object &U, const py::object &V,
                         const py::object &exclude, bool sorted, bool squared, bool single,
                         std::int64_t most, int threads) {
    const Maps given = maps(U, V);
    const Metric of = metric_of(metric);
    const Points queries = points(x), database = points(y);
    const Indices excluded(exclude, queries.rows(), "exclude");
    const RadiusSettings settings{radius, Codes(excluded), sorted, squared, most};
    return by_radius(single, [&](auto &found) {
        using T = typename std::decay_t<decltype(found)>::Value;
        const Control run = control(threads);
        const Released release;
        found =
            kernels().of<T>().search.radius_neighbors(queries, database, settings, given, run, of);
    });
}

/// Returns, for each query, the first rank, the hits among the first R and both sums of precisions.
py::object class_ranks(const py::array &x, const py::array &y, const std::string &metric,
                       const py::object &U, const py::object &V, const py::object &query_labels,
                       const py::object &labels, const py::object &exclude,
                       const py::object &allowed, const py::object &filter_labels, int threads) {
    const Maps given = maps(U, V);
    const Metric of = metric_of(metric);
    const Points queries = points(x), database = points(y);
    const RowFilter filter(exclude, allowed, filter_labels, queries.rows(), database.rows());
    const Indices of_queries(query_labels, queries.rows(), "query_labels");
    const Indices of_database(labels, database.rows(), "labels");
    std::vector<RankSummary> found(static_cast<std::size_t>(queries.rows()));
    {
        const Control run = control(threads);
        const Released release;
        kernels().points.rank_classes(queries, database, given, of_queries, of_database, filter, of,
                                      found, run);
    }
    std::vector<std::int64_t> first, hits;
    std::vector<double> of_hits, all;
    for (const RankSummary &each : found) {
        first.push_back(each.first);
        hits.push_back(each.hits);
        of_hits.push_back(each.precisions_of_hits);
        all.push_back(each.precisions);
    }
    return py::make_tuple(copied(first), copied(hits), copied(of_hits), copied(all));
}

/// Computes the votes in the precision of `values`.
void vote(const py::array &x, const py::array &y, const py::array &values,
          const py::object &log_weight, const py::object &exclude, py::array out, int threads) {
    const Points queries = points(x), database = points(y);
    const auto weight = elements<double>(log_weight, database.rows(), "log_weight");
    const Indices excluded(exclude, queries.rows(), "exclude");
    const View<double> means = writable<double>(out);
    by_precision(values, [&](auto zero) {
        using T = decltype(zero);
        const View<const T> given = matrix<T>(values);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().search.soft_votes(queries, database, given, weight, excluded, means, run);
    });
}

} // namespace

void register_neighbors(py::module_ &m) {
    m.def("kneighbors", &nearest);
    m.def("kneighbors_per_class", &nearest_per_class);
    m.def("find_impostors", &impostors);
    m.def("radius_neighbors", &within_radius);
    m.def("rank_classes", &class_ranks);
    m.def("soft_votes", &vote);
}

} // namespace metricfast::python
