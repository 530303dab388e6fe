/// Short calls of the compiled library: on memory of the caller's, with results in vectors.
#pragma once

#include <numeric>
#include <vector>

#include "metricfast/library.hpp"

namespace metricfast {

/// The k nearest points of each query: row i of both has those of query i, nearest first.
template <class T> struct Neighbors {
    Index k = 0;
    std::vector<T> distances;
    std::vector<std::int64_t> indices;
};

/// The k nearest points of each query under the distance |L (x - y)|, ties by the lower row.
/// \param queries (n x d). \param database (m x d). \param L (p x d); empty: the Euclidean
/// distance. Throws std::invalid_argument where shapes do not fit or coordinates are not finite.
template <class T>
Neighbors<T> kneighbors(View<const T> queries, View<const T> database, Index k,
                        View<const T> L = {}, const Control &control = {}) {
    require(k >= 1, "n_neighbors must be at least 1");
    Neighbors<T> found;
    found.k = k;
    const auto size = static_cast<std::size_t>(queries.rows * k);
    found.distances.resize(size);
    found.indices.resize(size);
    library().of<T>().search.kneighbors(
        queries, database, k, L.rows > 0 ? Maps(Points(L)) : Maps(), nullptr, false,
        View<T>(found.distances.data(), queries.rows, k),
        View<std::int64_t>(found.indices.data(), queries.rows, k), control);
    return found;
}

/// Distances |L (x_i - y_j)|, (n x m).
template <class T>
std::vector<T> pairwise_distances(View<const T> x, View<const T> y, View<const T> L = {},
                                  const Control &control = {}) {
    std::vector<T> distances(static_cast<std::size_t>(x.rows * y.rows));
    library().of<T>().search.pairwise_distances(x, y, L.rows > 0 ? Maps(Points(L)) : Maps(), false,
                                                View<T>(distances.data(), x.rows, y.rows), control);
    return distances;
}

/// The value of a loss of points under a map, and its gradient by the map, (p x d).
struct ValueAndGradient {
    double value = 0;
    std::vector<double> gradient;
};

/// A loss of the points L x_i, each an anchor that is compared with all others.
/// \param x (n x d), with a mean near zero. \param L (p x d).
template <class T>
ValueAndGradient value_and_gradient(const Loss<T> &loss, View<const T> x, View<const T> L,
                                    const Control &control = {}) {
    const Index n = x.rows, p = L.rows, d = x.cols;
    std::vector<T> mapped(static_cast<std::size_t>(n * p)), by_point(mapped.size());
    const View<T> z(mapped.data(), n, p), dz(by_point.data(), n, p);
    std::vector<std::int64_t> self(static_cast<std::size_t>(n));
    std::iota(self.begin(), self.end(), std::int64_t(0));
    const KernelsOf<T> &kernels = library().of<T>();
    kernels.embeddings.linear_forward(x, L, z, control);
    RowProblem<T> problem;
    problem.queries = problem.database = z;
    problem.symmetric = true;
    problem.exclude = self;
    ValueAndGradient found;
    found.value = kernels.losses.value_and_gradient(problem, loss, dz, {}, control).value;
    found.gradient.resize(static_cast<std::size_t>(p * d));
    kernels.embeddings.linear_backward(dz, x, View<double>(found.gradient.data(), p, d), control);
    return found;
}

} // namespace metricfast
