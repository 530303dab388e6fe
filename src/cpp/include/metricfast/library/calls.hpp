/// Convenience functions of the compiled library. They take memory of the caller and return
/// vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "metricfast/library.hpp"

namespace metricfast {

/// The k nearest points of each query: row i of both has those of query i, nearest first.
template <class T> struct Neighbors {
    Index k = 0;
    std::vector<T> distances;
    std::vector<std::int64_t> indices;
};

/// Returns the neighbours that search(distances, indices) writes. \param count number of database
/// points.
template <class Q, class Search>
auto neighbors_of(View<Q> queries, Index count, Index k, Search &&search) {
    using T = std::remove_const_t<Q>;
    require(k >= 1, "n_neighbors must be at least 1");
    require(k <= count, "n_neighbors exceeds the number of database points");
    Neighbors<T> found;
    found.k = k;
    found.distances.resize(static_cast<std::size_t>(queries.rows * k));
    found.indices.resize(found.distances.size());
    search(View<T>(found.distances.data(), queries.rows, k),
           View<std::int64_t>(found.indices.data(), queries.rows, k));
    return found;
}

/// Returns the maps of a distance with map L. An L without rows stands for the identity.
inline Maps map_of(const Points &L) { return L.rows() > 0 ? Maps(L) : Maps(); }

/// Returns the k nearest points of each query, ties by the lower row: by the distance |L (x - y)|,
/// or by another metric of L x and L y.
/// \param queries (n x d). \param database (m x d). \param L (p x d), empty for the Euclidean
///   distance. Throws std::invalid_argument if shapes do not fit or coordinates are not finite.
template <class Q, class X>
auto kneighbors(View<Q> queries, View<X> database, Index k, const Points &L = View<const double>(),
                const Control &control = {}, Metric metric = Metric::euclidean) {
    return neighbors_of(queries, database.rows, k, [&](auto distances, auto indices) {
        library().of<std::remove_const_t<Q>>().search.kneighbors(queries, database, map_of(L), k,
                                                                 nullptr, false, distances, indices,
                                                                 control, nullptr, metric);
    });
}

/// The same for a prepared database, among the points that a filter allows.
template <class Q>
auto kneighbors(View<Q> queries, const SearchDatabase &database, Index k,
                const Control &control = {}, const Filter &filter = {}) {
    return neighbors_of(queries, database.points().rows(), k, [&](auto distances, auto indices) {
        library().of<std::remove_const_t<Q>>().database.kneighbors(
            queries, database, k, filter, false, distances, indices, control);
    });
}

/// Prepares a database for many searches under a map L. It refers to the points if there is no map;
/// otherwise it holds their images.
inline std::unique_ptr<SearchDatabase> prepare_database(const Points &points,
                                                        const Points &L = View<const double>(),
                                                        const Control &control = {},
                                                        Metric metric = Metric::euclidean) {
    DatabaseOptions options;
    options.metric = metric;
    return library().points.prepare_database(points, map_of(L), options, control);
}

/// Returns all points of a prepared database within a radius of each query, ties by the lower row.
template <class Q>
auto radius_neighbors(View<Q> queries, const SearchDatabase &database, double radius,
                      const Control &control = {}) {
    RadiusSettings settings;
    settings.radius = radius;
    return library().of<std::remove_const_t<Q>>().database.radius_neighbors(queries, database,
                                                                            settings, control);
}

/// Targeted and loss-augmented inference for queries among the points of a prepared database.
inline void infer(const Points &queries, const SearchDatabase &database,
                  const InferenceProblem &problem, const Control &control = {}) {
    library().points.infer_prepared(queries, database, problem, control);
}

/// Returns the points embedded by a model, (n x n_components).
template <class X>
auto transform(const SavedModel &model, View<X> points, ModelSide side = ModelSide::query,
               const Control &control = {}) {
    using T = std::remove_const_t<X>;
    std::vector<T> embedded(static_cast<std::size_t>(points.rows * model.n_components()));
    model.transform(points, View<T>(embedded.data(), points.rows, model.n_components()), side,
                    control);
    return embedded;
}

/// Returns the distances |L (x_i - y_j)|, (n x m).
template <class Q, class X>
auto pairwise_distances(View<Q> x, View<X> y, const Points &L = View<const double>(),
                        const Control &control = {}) {
    using T = std::remove_const_t<Q>;
    std::vector<T> distances(static_cast<std::size_t>(x.rows * y.rows));
    library().of<T>().search.pairwise_distances(x, y, map_of(L), false,
                                                View<T>(distances.data(), x.rows, y.rows), control);
    return distances;
}

/// The value of a loss of points under a map, and its gradient by the map, (p x d).
struct ValueAndGradient {
    double value = 0;
    std::vector<double> gradient;
};

/// Returns the loss of the points L x_i, and its gradient. Each point is an anchor that is compared
/// with all others. The value is a sum over anchors. Throws std::overflow_error if distances, the
/// value or the gradient are too large for T.
/// \param x (n x d), with a mean near zero. \param L (p x d).
template <class T, class X, class M>
ValueAndGradient value_and_gradient(const Loss<T> &loss, View<X> x, View<M> L,
                                    const Control &control = {}) {
    const Index n = x.rows, p = L.rows, d = x.cols;
    std::vector<T> mapped(static_cast<std::size_t>(n * p)), by_point(mapped.size());
    const View<T> z(mapped.data(), n, p), dz(by_point.data(), n, p);
    std::vector<std::int64_t> self(static_cast<std::size_t>(n));
    std::iota(self.begin(), self.end(), std::int64_t(0));
    const KernelsOf<T> &kernels = library().of<T>();
    kernels.embeddings.linear_forward(x, L, z, control);
    const auto overflow = [] {
        throw std::overflow_error("value_and_gradient: the loss overflows, divide x or L");
    };
    const T most = std::sqrt(std::numeric_limits<T>::max() / static_cast<T>(p)) / 2;
    if (!std::all_of(mapped.begin(), mapped.end(), [&](T v) { return std::abs(v) < most; }))
        overflow();
    RowProblem<T> problem;
    problem.queries = problem.database = z;
    problem.symmetric = true;
    problem.exclude = self;
    ValueAndGradient found;
    found.value = kernels.losses.value_and_gradient(problem, loss, dz, {}, control, nullptr).value;
    found.gradient.resize(static_cast<std::size_t>(p * d));
    kernels.embeddings.linear_backward(dz, x, View<double>(found.gradient.data(), p, d), control);
    if (!std::isfinite(found.value) || !std::all_of(found.gradient.begin(), found.gradient.end(),
                                                    [](double g) { return std::isfinite(g); }))
        overflow();
    return found;
}

} // namespace metricfast
