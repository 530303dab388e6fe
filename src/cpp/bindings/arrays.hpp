/// Views of NumPy arrays for the kernels. Arrays of another layout raise an error; only indices are
/// copied.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "gil.hpp"
#include "kernels.hpp"

namespace metricfast::python {

namespace py = pybind11;

template <class T> bool holds(const py::array &a) { return py::isinstance<py::array_t<T>>(a); }

/// Views a matrix with contiguous rows. Other strides raise an error: the Python layer copies such
/// arrays first.
template <class T> View<const T> matrix(const py::array &a) {
    require(holds<T>(a) && a.ndim() == 2,
            "expected a two-dimensional array of the right precision");
    const Index item = static_cast<Index>(sizeof(T));
    require(a.shape(1) <= 1 || a.strides(1) == item, "expected an array with contiguous rows");
    require(a.shape(0) <= 1 || (a.strides(0) >= item * a.shape(1) && a.strides(0) % item == 0),
            "expected an array in row order");
    const Index stride = a.shape(0) <= 1 ? a.shape(1) : a.strides(0) / item;
    return {static_cast<const T *>(a.data()), a.shape(0), a.shape(1), stride};
}

template <class T> View<T> writable(py::array &a) {
    require(a.writeable(), "the output array is read-only");
    const View<const T> v = matrix<T>(a);
    return {const_cast<T *>(v.data), v.rows, v.cols, v.stride};
}

inline Points points(const py::array &a) {
    return holds<float>(a) ? Points(matrix<float>(a)) : Points(matrix<double>(a));
}

/// Views a contiguous array of exactly `size` elements. The view is null for None.
template <class T> Span<const T> elements(const py::object &object, Index size, const char *name) {
    if (object.is_none())
        return nullptr;
    const auto a = py::cast<py::array>(object);
    require(holds<T>(a) && (a.flags() & py::array::c_style) != 0 && a.size() == size,
            std::string(name) + " has the wrong type, layout or size");
    return {static_cast<const T *>(a.data()), size};
}

template <class T> Span<T> writable_elements(py::array &a, Index size, const char *name) {
    require(a.writeable(), std::string(name) + " is read-only");
    return {const_cast<T *>(elements<T>(a, size, name).data()), size};
}

/// Views a boolean array, in which a kernel writes 0 or 1.
inline Span<std::uint8_t> writable_flags(py::array &a, Index size, const char *name) {
    return {reinterpret_cast<std::uint8_t *>(writable_elements<bool>(a, size, name).data()), size};
}

/// A copy of integers that a kernel uses as indices. Another Python thread could otherwise change
/// the array after the kernel has checked it.
class Indices {
  public:
    Indices(const py::object &object, Index size, const char *name) : given_(!object.is_none()) {
        const auto values = elements<std::int64_t>(object, size, name);
        // One more, so that data() is not null for an empty array.
        values_.reserve(static_cast<std::size_t>(values.size()) + 1);
        values_.assign(values.begin(), values.end());
    }

    operator Codes() const {
        return given_ ? Codes(values_.data(), static_cast<Index>(values_.size())) : Codes();
    }

  private:
    bool given_;
    std::vector<std::int64_t> values_;
};

/// The rows that each query may find. It refers to the arrays `allowed` and `labels`.
class RowFilter {
  public:
    /// \param allowed 0 for each excluded row, for all queries (a vector) or per query (a matrix);
    ///   or None.
    /// \param labels the labels of queries and database, and whether a query finds rows with its
    ///   own label; or None.
    RowFilter(const py::object &exclude, const py::object &allowed, const py::object &labels,
              Index queries, Index points)
        : excluded_(exclude, queries, "exclude") {
        filter_.exclude = excluded_;
        if (!allowed.is_none() && py::cast<py::array>(allowed).ndim() == 2)
            filter_.pairs = matrix<std::uint8_t>(py::cast<py::array>(allowed));
        else
            filter_.rows = elements<std::uint8_t>(allowed, points, "rows");
        if (!labels.is_none()) {
            const auto given = py::cast<std::tuple<py::object, py::object, bool>>(labels);
            filter_.query_labels = elements<std::int64_t>(std::get<0>(given), queries, "labels");
            filter_.labels = elements<std::int64_t>(std::get<1>(given), points, "labels");
            filter_.equal = std::get<2>(given);
        }
    }
    RowFilter(const RowFilter &) = delete;

    operator const Filter &() const { return filter_; }

  private:
    Indices excluded_;
    Filter filter_;
};

/// Calls f(T{}) with the array's precision.
template <class F> auto by_precision(const py::array &a, F &&f) {
    require(holds<float>(a) || holds<double>(a), "expected float32 or float64");
    return holds<float>(a) ? f(float{}) : f(double{});
}

/// An array that owns a copy of the values.
template <class T> py::array_t<T> copied(const std::vector<T> &values) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

/// Moves a vector into an array.
template <class T> py::array_t<T> owning(std::vector<T> values) {
    auto *kept = new std::vector<T>(std::move(values));
    const py::capsule owner(kept, [](void *p) { delete static_cast<std::vector<T> *>(p); });
    return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
}

/// Calls search(lists), and returns the lists (distances, indices, row_starts, number of pairs).
template <class Search> py::object by_radius(bool single, Search &&search) {
    const auto run = [&](auto lists) -> py::object {
        search(lists);
        return py::make_tuple(owning(std::move(lists.distances)), owning(std::move(lists.indices)),
                              owning(std::move(lists.row_starts)), lists.pairs);
    };
    return single ? run(NeighborLists<float>()) : run(NeighborLists<double>());
}

/// Returns the metric of a name.
inline Metric metric_of(const std::string &name) {
    require(name == "euclidean" || name == "cosine" || name == "inner_product",
            "unknown metric " + name);
    return name == "euclidean" ? Metric::euclidean
           : name == "cosine"  ? Metric::cosine
                               : Metric::inner_product;
}

/// Returns the maps U and V of a distance |U x - V y|. None stands for the identity.
inline Maps maps(const py::object &U, const py::object &V) {
    if (U.is_none())
        return {};
    const Points query = points(py::cast<py::array>(U));
    return U.is(V) ? Maps(query) : Maps(query, points(py::cast<py::array>(V)));
}

} // namespace metricfast::python
